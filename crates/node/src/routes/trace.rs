//! Which rule of a switch sends the bytes of one IO where, for `nacre route trace`.

use nacre_object::{Error, ObjectId, ProgramName, Result};
use nacre_route::limits::MAX_WAYPOINTS_OF_AN_IO;
use nacre_route::{Destination, Io, Rule, RuleId, Segment, Span};

use super::NodeSwitch;
use super::copies::{CopyWay, copy_ways};
use super::report::RouteWay;
use super::routed_locations::RoutedLocations;
use super::switch_core::Core;

/// A way before it is known which object keeps the bytes.
struct Decided {
    span: Option<Span>,
    rule: Option<(RuleId, Rule)>,
    to: Destination,
    program: Option<String>,
    /// The waypoints on the way, each as NAME@VERSION.
    waypoints: Vec<String>,
    copies: Vec<CopyWay>,
}

/// Some bytes, where they go, and the program or inserted rule that decides; `None` if a rule alone
/// decides.
type ProgramWay = (Option<Span>, Destination, Option<String>);

impl NodeSwitch {
    /// Where the rules send the bytes of an IO now. The question changes nothing.
    ///
    /// # Errors
    /// `Invalid` if another node holds the object; `Stale` if another gateway routes; the errors of
    /// programs.
    pub(super) async fn trace(&self, io: Io) -> Result<Vec<RouteWay>> {
        let locations = self.locations();
        if locations.holder(&io.object) != locations.own() {
            let text = format!("{} holds this object", locations.holder(&io.object));
            return Err(Error::invalid(text).on(&io.object));
        }
        if !self.router().is_this() && self.has_rules() {
            return Err(Error::stale("this gateway routes no IO")
                .on(&io.object)
                .hint("see which gateways there are: nacre map get route-gateways"));
        }
        let home = match locations.rados() {
            Some(locations) => Some(locations.primary(&io.object).await?),
            None => None,
        };
        let io = Io { home: home.clone(), ..io };
        let home = home.map_or_else(|| locations.own().to_string(), |home| home.to_string());
        let mut ways = vec![];
        for decided in self.decided_ways(&io, &[])? {
            ways.push(decided.located(locations, &io.object, &home).await?);
        }
        Ok(ways)
    }

    /// The ways of an IO that has passed some waypoints.
    fn decided_ways(&self, io: &Io, waypoints: &[String]) -> Result<Vec<Decided>> {
        let home = io.home.as_ref().unwrap_or(self.locations().own());
        let core = self.core();
        let table = core.table();
        let (mut ways, mut behind) = (vec![], vec![]);
        for segment in table.route(io)? {
            let (span, io) = (segment.span, Io { span: segment.span, ..io.clone() });
            let Some((id, rule)) = segment.rule.and_then(|id| Some((id, table.get(id)?))) else {
                let (to, copies) = (Destination::Home, vec![]);
                let waypoints = waypoints.to_vec();
                ways.push(Decided { span, rule: None, to, program: None, waypoints, copies });
                continue;
            };
            if let Destination::Waypoint(layer) = &rule.destination {
                behind.push((layer.clone(), io));
                continue;
            }
            let decided = match &rule.destination {
                Destination::Program(program) => self.decided_by(&core, id, rule, program, &io)?,
                to => vec![(span, to.clone(), None)],
            };
            for (span, to, program) in decided {
                let copies = copy_ways(table, &core.copies, &io, home);
                let (rule, waypoints) = (Some((id, rule.clone())), waypoints.to_vec());
                ways.push(Decided { span, rule, to, program, waypoints, copies });
            }
        }
        drop(core);
        for (layer, io) in behind {
            if waypoints.len() >= MAX_WAYPOINTS_OF_AN_IO {
                return Err(Error::invalid("rules send this IO through waypoints in a loop")
                    .on(&io.object)
                    .hint("remove rules: nacre route rm APPLICATION"));
            }
            let mut passed = waypoints.to_vec();
            passed.push(self.programs().waypoints().shown(&layer));
            ways.extend(self.decided_ways(&Io { via: Some(layer), ..io }, &passed)?);
        }
        ways.sort_by_key(|way| way.span);
        Ok(ways)
    }

    /// Where a program, or a rule that it inserted, would send bytes now.
    fn decided_by(
        &self,
        core: &Core,
        id: RuleId,
        rule: &Rule,
        name: &ProgramName,
        io: &Io,
    ) -> Result<Vec<ProgramWay>> {
        let inserted = core.switch.inserted(id);
        let segments = match inserted {
            Some(table) => table.route(io)?,
            None => vec![Segment { span: io.span, rule: None }],
        };
        let mut ways = vec![];
        for Segment { span, rule: own } in segments {
            if let Some(own) = own.and_then(|own| inserted?.get(own)) {
                ways.push((span, own.destination.clone(), Some(own.to_string())));
                continue;
            }
            let version = core.switch.programs().get(name).map(|declared| declared.version);
            let program = version.and_then(|v| self.programs().version(name, v));
            let program = program.ok_or_else(|| {
                Error::unavailable(format!("the program route/{name} is not live on this node"))
                    .hint(format!("list its versions: nacre program status route/{name}"))
            })?;
            let decision = program.decide(&rule.header, &Io { span, ..io.clone() })?;
            let by = format!("{name}@{}", program.version());
            ways.push((span, decision.destination, Some(by)));
        }
        Ok(ways)
    }
}

impl Decided {
    /// The way, with the object that keeps the bytes of `object`. `home` is the target that holds
    /// `object`.
    async fn located(
        self,
        locations: &RoutedLocations,
        object: &ObjectId,
        home: &str,
    ) -> Result<RouteWay> {
        let Self { span, rule, to, program, waypoints, copies } = self;
        let asks = matches!(to, Destination::Controller(_));
        let place = if asks {
            None
        } else {
            let chosen = locations.choose(object, &to).await?;
            locations.place(object, chosen.as_ref().unwrap_or(&to))?
        };
        let destination = match (&place, locations.rados()) {
            (None, _) if let Destination::Bypass(layer) = &to => {
                format!("{home} (home, past the {layer})")
            }
            (None, _) if let Destination::Versions(count) = &to => {
                format!("{home} (home, which keeps {count} versions)")
            }
            (None, _) if matches!(to, Destination::Snapshots(_)) => {
                format!("{home} (home, which keeps snapshots)")
            }
            (None, _) if let Destination::Erasure(erasure) = &to => {
                let count = erasure.among.len();
                format!("{home} (home, which makes {count} fragments when the object rests)")
            }
            (None, _) if asks => "the controller, which makes a rule".to_owned(),
            (None, _) => format!("{home} (home)"),
            (Some(place), Some(locations)) => locations.primary(&place.object).await?.to_string(),
            (Some(place), None) => place.node.to_string(),
        };
        Ok(RouteWay {
            span: span.map(|span| span.to_string()),
            rule: rule.as_ref().map(|(_, rule)| rule.to_string()),
            application: rule.as_ref().map(|(_, rule)| rule.application.to_string()),
            is_made: rule.is_some_and(|(id, _)| id.is_made()),
            program,
            waypoints,
            destination,
            object: place.map(|place| place.object.to_string()),
            copies,
        })
    }
}
