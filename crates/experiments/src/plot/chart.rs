//! The content of a plot before it is drawn, and the parts that every plot has: title, panels,
//! legend.

use nacre_object::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, Rectangle, SVGBackend, Text};
use plotters::style::Color;

use super::style::{PANEL_SIZE, PAPER, TEXT_SIZE, TITLE_SIZE, colour, text};
use crate::report::{Point, Report, Series};

const PANEL_WIDTH: u32 = 430;
const LEGEND_WIDTH: u32 = 190;
const HEIGHT: u32 = 420;
/// Between the lines of the legend.
const LEGEND_STEP: i32 = 22;
const LEGEND_TOP: i32 = 34;
const SWATCH: i32 = 12;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is to be shown.
pub(super) struct Chart<'a> {
    title: String,
    /// What the points are over.
    pub x: &'a str,
    /// What is measured.
    pub y: &'a str,
    /// How a place on the x axis is written.
    pub shown: Box<dyn Fn(f64) -> String + 'a>,
    pub panels: Vec<Panel<'a>>,
    /// The strategies, each with a colour.
    legend: Vec<&'a str>,
}

/// Series on common axes.
pub(super) struct Panel<'a> {
    pub title: &'a str,
    pub series: Vec<&'a Series>,
}

impl<'a> Chart<'a> {
    /// The chart of an experiment's report.
    ///
    /// # Errors
    /// `Invalid` if it has no points.
    pub fn of(
        report: &'a Report,
        panel_for_each_way: bool,
        shown: fn(f64) -> String,
    ) -> Result<Self> {
        let title = format!("{}, {}", report.measurement.title, report.engine.engine);
        let axes = (report.x.as_str(), "entries a second");
        Self::new(title, axes, &report.series, panel_for_each_way, Box::new(shown))
    }

    /// A chart of series whose axes are named.
    ///
    /// # Errors
    /// `Invalid` if they have no points.
    pub fn new(
        title: String,
        (x, y): (&'a str, &'a str),
        all: &'a [Series],
        panel_for_each_way: bool,
        shown: Box<dyn Fn(f64) -> String + 'a>,
    ) -> Result<Self> {
        let mut panels: Vec<Panel<'a>> = vec![];
        let mut legend: Vec<&str> = vec![];
        for series in all {
            if !legend.contains(&series.strategy.as_str()) {
                legend.push(&series.strategy);
            }
            let title = if panel_for_each_way { series.way.as_str() } else { "" };
            match panels.iter_mut().find(|panel| panel.title == title) {
                Some(panel) => panel.series.push(series),
                None => panels.push(Panel { title, series: vec![series] }),
            }
        }
        if all.iter().all(|series| series.points.is_empty()) {
            return Err(Error::invalid("there are no points to draw"));
        }
        Ok(Self { title, x, y, shown, panels, legend })
    }

    /// The number of a strategy's colour.
    pub fn colour_of(&self, series: &Series) -> usize {
        self.legend.iter().position(|name| *name == series.strategy).unwrap_or(0)
    }

    /// All points.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
    }

    /// The greatest rate of any round.
    pub fn most(&self) -> f64 {
        self.points().map(|point| point.entries_per_second.most).fold(0.0, f64::max)
    }

    /// Draws title and legend, and each panel by `draw`.
    pub fn draw(&self, draw: impl Fn(&Area<'_>, &Panel<'_>) -> Drawn) -> Drawn<String> {
        let mut svg = String::new();
        {
            let width = PANEL_WIDTH * self.panels.len() as u32 + LEGEND_WIDTH;
            let root = SVGBackend::with_string(&mut svg, (width, HEIGHT)).into_drawing_area();
            root.fill(&PAPER)?;
            let below = root.titled(&self.title, text(TITLE_SIZE))?;
            let (charts, legend) = below.split_horizontally(width - LEGEND_WIDTH);
            for (area, panel) in
                charts.split_evenly((1, self.panels.len())).iter().zip(&self.panels)
            {
                let area = area.titled(panel.title, text(PANEL_SIZE))?;
                draw(&area, panel)?;
            }
            self.draw_legend(&legend)?;
            root.present()?;
        }
        Ok(svg)
    }

    fn draw_legend(&self, area: &Area<'_>) -> Drawn {
        for (at, name) in self.legend.iter().enumerate() {
            let top = LEGEND_TOP + at as i32 * LEGEND_STEP;
            let swatch = [(8, top), (8 + SWATCH, top + SWATCH)];
            area.draw(&Rectangle::new(swatch, colour(at).filled()))?;
            let beside = (8 + SWATCH + 6, top);
            area.draw(&Text::new((*name).to_owned(), beside, text(TEXT_SIZE)))?;
        }
        if self.points().all(|point| point.entries_per_second.rounds.len() < 2) {
            return Ok(());
        }
        let below = LEGEND_TOP + self.legend.len() as i32 * LEGEND_STEP + 6;
        for (at, line) in ["whiskers: least and", "greatest round"].iter().enumerate() {
            let place = (8, below + at as i32 * 15);
            area.draw(&Text::new(*line, place, text(TEXT_SIZE - 1)))?;
        }
        Ok(())
    }
}
