//! Draws values as bars: each point has a group, with a bar for each strategy.

use plotters::prelude::{EmptyElement, PathElement, Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Area, Chart, Drawn, Panel};
use super::style::{INK, TEXT_SIZE, axes, colour, labelled, text};
use super::units::count;

/// The share of a group's width that is left free.
const FREE: f64 = 0.2;
/// The share of a bar's width that is drawn.
const BAR: f64 = 0.9;
/// The gap between a whisker and the number above it, as a share of the highest value.
const GAP: f64 = 0.01;
/// Room above the highest, for its number.
const ROOM: f64 = 1.12;

pub(super) fn draw(chart: &Chart<'_>) -> Drawn<String> {
    let most = chart.most();
    chart.draw(|area, panel| bars(area, chart, panel, most))
}

fn bars(area: &Area<'_>, chart: &Chart<'_>, panel: &Panel<'_>, most: f64) -> Drawn {
    let groups: Vec<f64> = panel.series[0].points.iter().map(|point| point.x).collect();
    let mut drawn =
        labelled(area).build_cartesian_2d(0.0..groups.len() as f64, 0.0..most * ROOM)?;
    let mut mesh = drawn.configure_mesh();
    axes(&mut mesh, (chart.x, chart.y));
    mesh.disable_x_mesh().x_labels(0).y_label_formatter(&|value| count(*value)).draw()?;
    let names = groups.iter().enumerate().map(|(at, x)| {
        let style = text(TEXT_SIZE).pos(Pos::new(HPos::Center, VPos::Top));
        EmptyElement::at((at as f64 + 0.5, 0.0)) + Text::new((chart.shown)(*x), (0, 8), style)
    });
    drawn.draw_series(names)?;
    for (at, series) in panel.series.iter().enumerate() {
        let colour = colour(chart.colour_of(series));
        for (group, point) in series.points.iter().enumerate() {
            let rate = &point.entries_per_second;
            let (left, right) = bar_at(group, at, panel.series.len());
            let centre = (left + right) / 2.0;
            let bar = Rectangle::new([(left, 0.0), (right, rate.median)], colour.filled());
            drawn.draw_series([bar])?;
            let whisker = [(centre, rate.least), (centre, rate.most)];
            drawn.draw_series([PathElement::new(whisker, INK)])?;
            let above = text(TEXT_SIZE - 2).pos(Pos::new(HPos::Center, VPos::Bottom));
            let place = (centre, rate.most + most * GAP);
            drawn.draw_series([Text::new(count(rate.median), place, above)])?;
        }
    }
    Ok(())
}

/// The left and right edge of bar number `at` of `count` in its group.
fn bar_at(group: usize, at: usize, count: usize) -> (f64, f64) {
    let width = (1.0 - FREE) / count as f64;
    let left = group as f64 + FREE / 2.0 + width * (at as f64 + (1.0 - BAR) / 2.0);
    (left, left + width * BAR)
}
