//! Draws reports and other JSON as SVG.
//!
//! A report measures each strategy in several forms, such as a bare operation and a class method.
//! Each form is a panel, and all panels have the same axes. A strategy has the same colour in all
//! panels. Whiskers reach from the smallest to the largest round. A style sheet inside the SVG
//! adapts the colours to browsers with a dark theme, so one file is enough.

mod bars;
mod chart;
mod lines;
mod rows;
mod style;
mod units;

use nacre_object::{Error, Result};

use self::chart::Chart;
pub use self::rows::{Fields, plot_rows};
use self::units::{bytes, seconds};
use crate::experiment::Experiment;
use crate::report::Report;

/// How the axes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Linear,
    /// Both, by factors.
    Log,
}

/// What a plot consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Lines(Axis),
    /// Groups of bars.
    Bars,
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub form: Form,
    /// Whether each way has a panel, or all are in one.
    pub panel_for_each_way: bool,
}

/// Draws a report.
///
/// # Errors
/// `Invalid` if it is of no experiment, or has nothing to draw.
pub fn plot(report: &Report) -> Result<String> {
    let experiment: Experiment = report.measurement.experiment.parse()?;
    let look = experiment.look();
    let shown = match look.form {
        Form::Lines(Axis::Linear) => seconds,
        Form::Lines(Axis::Log) | Form::Bars => bytes,
    };
    draw(&Chart::of(report, look.panel_for_each_way, shown)?, look.form)
}

fn draw(chart: &Chart<'_>, form: Form) -> Result<String> {
    let drawn = match form {
        Form::Lines(axis) => lines::draw(chart, axis),
        Form::Bars => bars::draw(chart),
    };
    let svg =
        drawn.map_err(|error| Error::invalid(format!("the plot cannot be drawn: {error}")))?;
    Ok(style::for_light_and_dark(&svg))
}
