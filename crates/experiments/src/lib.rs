//! `nacre-bench experiment`: produces the figures of the papers, measured on a real engine or
//! computed by a simulator.
//!
//! An [`Experiment`] is a figure: it says which strategies are measured ([`Strategy`]), for which
//! parameters, and how the result is drawn. The result is a [`Report`]. Plots use only the report,
//! so a stored report can be plotted again. The checked-in reports and plots are in `experiments/`,
//! with a folder for each figure.
//!
//! - `strategy`: the ways to store a log that the Brados paper compares (its table 2), and the
//!   counterpart of each in nacre;
//! - `sample_log`: a log that is stored by a strategy;
//! - `site`: the engine that is measured;
//! - `plan`, `rounds`: the order of the measurements;
//! - `report`, `machine`: the results, and the machine on which they were measured;
//! - `plot`: draws SVG;
//! - `simulated`: figures that simulators compute;
//! - `cephfs`: the figures of balancing on metadata servers of CephFS;
//! - `recorded_build`: a recording of a real build, which compilation figures replay;
//! - `thesis`: the experiments of the thesis on SLOs, simulated and measured;
//! - `workloads`, `policies`: the workloads of the clients and the balancer policies in figures of
//!   balancing.
//!
//! **Invariants.**
//!
//! - The strategies take turns, round by round, so slow changes of the machine affect all of them
//!   alike.
//! - Figures show medians; the report keeps each round.
//! - Every answer is checked: a refused append ends the experiment, and so does a read that returns
//!   the wrong entry.
//! - An experiment uses only objects that it has created, and removes them at its end.

mod cephfs;
mod experiment;
mod figure_chart;
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
mod stored_report;
mod strategy;
pub mod thesis;
mod workloads;

pub use cephfs::{CephFsEffort, CephFsFigure, CephFsReport, MeasuredFinding};
pub use experiment::Experiment;
pub use figure_chart::FigureChart;
pub use machine::Machine;
pub use plan::Plan;
pub use plot::{Fields, plot, plot_rows};
pub use recorded_build::{BuildSummary, RecordedBuild, RecordedStep};
pub use report::{Point, Program, Report, Series, Spread};
pub use rounds::{Effort, measure};
pub use simulated::{Finding, SimulatedFigure, SimulatedReport};
pub use site::Site;
pub use stored_report::{Measurement, StoredReport};
pub use strategy::{Addressing, Interface, Strategy, Way};
