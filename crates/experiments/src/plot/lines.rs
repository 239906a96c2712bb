//! Values over sizes, over time, or over any other number.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::{BindKeyPoints, Circle, IntoLogRange, PathElement};
use plotters::style::Color;

use super::Axis;
use super::chart::{Area, Chart, Drawn, Panel};
use super::style::{axes, colour, labelled};
use super::units::{count, nice_steps};
use crate::report::Point;

/// Room beside the outermost points, as a factor where axes count by factors.
const ROOM: f64 = 1.3;

pub(super) fn draw(chart: &Chart<'_>, axis: Axis) -> Drawn<String> {
    let xs: Vec<f64> = chart.points().map(|point| point.x).collect();
    let (first, last) = (least(&xs), xs.iter().copied().fold(0.0, f64::max));
    let most = chart.most();
    match axis {
        Axis::Log => {
            let rates = chart.points().map(|point| point.entries_per_second.least);
            let low = least(&rates.collect::<Vec<_>>()).max(1.0) / ROOM;
            let steps = nice_steps(low, most * ROOM);
            let mut sizes = xs;
            sizes.sort_by(f64::total_cmp);
            sizes.dedup();
            chart.draw(|area, panel| {
                let x = (first / ROOM..last * ROOM).log_scale().with_key_points(sizes.clone());
                let y = (low..most * ROOM).log_scale().with_key_points(steps.clone());
                lines(area, chart, panel, (x, y))
            })
        }
        Axis::Linear => {
            chart.draw(|area, panel| lines(area, chart, panel, (0.0..last, 0.0..most * 1.05)))
        }
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// One panel on these axes.
fn lines<X, Y>(area: &Area<'_>, chart: &Chart<'_>, panel: &Panel<'_>, (x, y): (X, Y)) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut drawn = labelled(area).build_cartesian_2d(x, y)?;
    let mut mesh = drawn.configure_mesh();
    axes(&mut mesh, (chart.x, chart.y));
    mesh.x_label_formatter(&|value| (chart.shown)(*value))
        .y_label_formatter(&|value| count(*value))
        .draw()?;
    for series in &panel.series {
        let colour = colour(chart.colour_of(series));
        let at = |point: &Point| (point.x, point.entries_per_second.median);
        let medians: Vec<_> = series.points.iter().map(at).collect();
        let circles = medians.iter().map(|at| Circle::new(*at, 3, colour.filled()));
        drawn.draw_series(circles)?;
        let whiskers = series.points.iter().map(|point| {
            let rate = &point.entries_per_second;
            PathElement::new([(point.x, rate.least), (point.x, rate.most)], colour)
        });
        drawn.draw_series(whiskers)?;
        drawn.draw_series([PathElement::new(medians, colour.stroke_width(2))])?;
    }
    Ok(())
}
