//! Writes a file of rules. The parser reads the same rules from it again.

use std::fmt;

use nacre_object::TargetName;

use super::parse::FIRST_LINE;
use super::{Grant, Location, Routes};

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => write!(f, "source {source}"),
            Self::Target(target) => write!(f, "target {target}"),
            Self::Pool(pool) => write!(f, "pool {pool}"),
            Self::Layer => f.write_str("layer"),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.operations, self.object)
    }
}

impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        let topology = &self.topology;
        for pool in &topology.pools {
            match topology.tenants.get(pool) {
                Some(tenant) => writeln!(f, "pool {pool} of {tenant}")?,
                None => writeln!(f, "pool {pool}")?,
            }
        }
        topology.targets.iter().try_for_each(|target| writeln!(f, "target {target}"))?;
        for (tenant, targets) in &topology.promises {
            let targets: Vec<_> = targets.iter().map(TargetName::as_str).collect();
            writeln!(f, "promise {tenant} at {}", targets.join(","))?;
        }
        topology.links.iter().try_for_each(|target| writeln!(f, "link {target}"))?;
        for (switch, location) in &topology.switches {
            writeln!(f, "switch {switch} at {location}")?;
        }
        for (layer, switch) in &topology.layers {
            write!(f, "layer {layer}")?;
            if topology.write_through.contains(layer) {
                f.write_str(" write-through")?;
            }
            match switch {
                Some(switch) => writeln!(f, " to {switch}")?,
                None => writeln!(f)?,
            }
        }
        for (program, destinations) in &topology.programs {
            destinations.iter().try_for_each(|to| writeln!(f, "program {program} to {to}"))?;
        }
        self.reserved.iter().try_for_each(|prefix| writeln!(f, "reserved {prefix}"))?;
        self.grants.iter().try_for_each(|grant| writeln!(f, "grant {grant}"))?;
        for insertion in &self.insertions {
            writeln!(f, "application {} on {}", insertion.application, insertion.switch)?;
            insertion.rules.iter().try_for_each(|rule| writeln!(f, "  {rule}"))?;
        }
        Ok(())
    }
}
