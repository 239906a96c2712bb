//! `nacre-bench experiment`: the figures of the papers, as measured on the engine at hand or as simulated.
//!
//! An [`Experiment`] is a figure: it says which strategies are measured ([`Strategy`]), over what, and how
//! it is drawn. Its result is a [`Report`], which is all that a plot is made of, so a plot can be made again
//! from a report that was kept. What is checked in lies in `experiments/`, a folder for each figure.
//!
//! - `strategy`: the paper's design space (its table 2), and what stands for each point of it here;
//! - `sample_log`: a log that is kept by a strategy;
//! - `site`: the engine that is measured;
//! - `plan`, `rounds`: what is measured in which order;
//! - `report`, `machine`: what came of it, and on what;
//! - `plot`: SVG;
//! - `simulated`: figures of balancing, which the simulator computes;
//! - `cephfs`: the same figures on metadata servers of CephFS;
//! - `recorded_build`: a real build, which figures of compilations replay;
//! - `workloads`, `policies`: what clients do in figures of balancing, and what balances it.
//!
//! **Invariants.** Strategies take turns, round by round, so drift of the machine hits all alike; medians
//! count, and each keeps its rounds. Every answer is checked: an append that is refused, or a read of
//! anything but the entry, ends the experiment. Objects are of its own, and removed.

mod cephfs;
mod experiment;
mod figure_chart;
mod kept;
mod machine;
mod plan;
mod plot;
mod policies;
mod recorded_build;
mod report;
mod rounds;
mod sample_log;
mod simulated;
mod site;
mod strategy;
mod workloads;

pub use cephfs::{CephFsEffort, CephFsFigure, CephFsReport, MeasuredFinding};
pub use experiment::Experiment;
pub use figure_chart::FigureChart;
pub use kept::{Kept, Measurement};
pub use machine::Machine;
pub use plan::Plan;
pub use plot::{Fields, plot, plot_rows};
pub use recorded_build::{BuildSummary, RecordedBuild, RecordedStep};
pub use report::{Point, Program, Report, Series, Spread};
pub use rounds::{Effort, measure};
pub use simulated::{Finding, SimulatedFigure, SimulatedReport};
pub use site::Site;
pub use strategy::{Addressing, Interface, Strategy, Way};
