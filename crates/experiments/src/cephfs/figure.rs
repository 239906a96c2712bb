//! `CephFsFigure`: the figures that are also measured on CephFS, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nacre_object::{Error, Result};

use super::report::{CephFsReport, MeasuredFinding, MeasuredTrial};
use super::trial::{Balancer, CephFsTrial, Conditions, losses_of, settings};
use super::{compilations, creates};
use crate::figure_chart::FigureChart;
use crate::simulated::SimulatedFigure;
use crate::stored_report::Measurement;

/// A figure that is measured on CephFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CephFsFigure {
    /// Mantle, figure 3: what distribution costs in requests.
    Locality,
    /// Mantle, figure 4: the same job again and again.
    SameJob,
    /// Mantle, figure 5: what one rank serves.
    OneRank,
    /// Mantle, figure 7: creates in one directory over time.
    Creates,
    /// Mantle, figure 8: the speedup of creates in one directory.
    CreateSpeedup,
}

/// How a figure is measured.
#[derive(Debug, Clone)]
pub struct CephFsEffort {
    /// `scripts/ceph-cluster`, which runs a cluster for each round.
    pub script: PathBuf,
    /// How often each trial is carried out.
    pub rounds: usize,
    /// How many operations of the Mantle paper stand for one operation here.
    pub scale_down: u32,
}

/// What is made of trials.
pub(super) struct Drawn {
    pub findings: Vec<MeasuredFinding>,
    pub charts: Vec<FigureChart>,
}

impl CephFsFigure {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Locality, Self::SameJob, Self::OneRank, Self::Creates, Self::CreateSpeedup];

    /// The same figure as it is simulated.
    pub fn simulated(self) -> SimulatedFigure {
        match self {
            Self::Locality => SimulatedFigure::Locality,
            Self::SameJob => SimulatedFigure::SameJob,
            Self::OneRank => SimulatedFigure::OneRank,
            Self::Creates => SimulatedFigure::Creates,
            Self::CreateSpeedup => SimulatedFigure::CreateSpeedup,
        }
    }

    /// Returns the form of a simulated figure that is measured on CephFS.
    ///
    /// # Errors
    /// `Invalid` if the figure is not measured on CephFS.
    pub fn of(figure: SimulatedFigure) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.simulated() == figure).ok_or_else(|| {
            let names = Self::ALL.map(|one| one.simulated().name()).join(", ");
            Error::invalid(format!("{} is not measured on CephFS", figure.name()))
                .hint(format!("choose one of {names}"))
        })
    }

    fn trials(self) -> Vec<CephFsTrial> {
        match self {
            Self::Locality => compilations::locality_trials(),
            Self::SameJob => creates::same_job_trials(),
            Self::OneRank => creates::one_rank_trials(),
            Self::Creates => creates::over_time_trials(),
            Self::CreateSpeedup => creates::speedup_trials(),
        }
    }

    fn draw(self, trials: &[MeasuredTrial]) -> Drawn {
        match self {
            Self::Locality => compilations::locality(trials),
            Self::SameJob => creates::same_job(trials),
            Self::OneRank => creates::one_rank(trials),
            Self::Creates => creates::over_time(trials),
            Self::CreateSpeedup => creates::speedup(trials),
        }
    }

    /// Measures the figure, round after round: each round runs every trial once. Calls `progress`
    /// after each trial of a round.
    ///
    /// # Errors
    /// `Unavailable` if a cluster does not start or an operation fails; `Invalid` if a rank cannot
    /// run a policy.
    pub async fn measure(
        self,
        effort: &CephFsEffort,
        progress: &mut dyn FnMut(&str),
    ) -> Result<CephFsReport> {
        let trials = self.trials();
        let measured = |trial: &CephFsTrial| MeasuredTrial {
            name: trial.name.clone(),
            ranks: trial.ranks,
            clients: trial.clients,
            rounds: vec![],
        };
        let mut all: Vec<_> = trials.iter().map(measured).collect();
        let CephFsEffort { script, rounds, scale_down } = effort;
        let mut ceph_version = String::new();
        for round in 0..*rounds {
            for (trial, measured) in trials.iter().zip(&mut all) {
                let seed = round as u64 + 1;
                let conditions = Conditions { script, scale_down: *scale_down, seed };
                let (done, version) = trial.round(conditions).await?;
                progress(&format!(
                    "  round {} of {rounds}, {}, {} clients: {} operations in {:.1} s",
                    round + 1,
                    trial.name,
                    trial.clients,
                    done.operations,
                    done.seconds
                ));
                measured.rounds.push(done);
                ceph_version = version;
            }
        }
        let Drawn { findings, charts } = self.draw(&all);
        Ok(CephFsReport {
            measurement: Measurement::new(self.simulated().name(), self.simulated().title()),
            ceph_version,
            scale_down: *scale_down,
            settings: settings(*scale_down),
            lost: lost_by(&trials)?,
            findings,
            trials: all,
            charts,
        })
    }
}

/// What the trials' policies lose.
fn lost_by(trials: &[CephFsTrial]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut lost = BTreeMap::new();
    for trial in trials {
        if let Balancer::Policy(policy) = trial.balancer {
            lost.insert(policy.name.to_owned(), losses_of(policy)?);
        }
    }
    lost.retain(|_, losses| !losses.is_empty());
    Ok(lost)
}
