//! Colours and sizes, and how axes look.

use plotters::chart::{ChartBuilder, MeshStyle};
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle};

use super::chart::Area;

pub(super) const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
pub(super) const PAPER: RGBColor = RGBColor(0xFE, 0xFE, 0xFE);
pub(super) const GRID: RGBColor = RGBColor(0xD8, 0xDE, 0xE4);

/// The colours of strategies, by Okabe and Ito. Colour-blind people can distinguish them, and they
/// are visible on light and dark backgrounds.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
];

/// The colours that replace those of the light theme if the browser prefers a dark one.
const DARK: [(RGBColor, &str); 3] = [(INK, "#E6EDF3"), (PAPER, "#0D1117"), (GRID, "#30363D")];

pub(super) const TITLE_SIZE: u32 = 18;
pub(super) const PANEL_SIZE: u32 = 14;
pub(super) const TEXT_SIZE: u32 = 12;

/// The colour of the strategy with this number.
pub(super) fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

pub(super) fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// A chart with room for the labels of its axes.
pub(super) fn labelled<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.margin(8).x_label_area_size(42).y_label_area_size(64);
    chart
}

/// Axes of `y` over `x`.
pub(super) fn axes<X: Ranged, Y: Ranged, B: DrawingBackend>(
    mesh: &mut MeshStyle<'_, '_, X, Y, B>,
    (x, y): (&str, &str),
) {
    mesh.x_desc(x)
        .y_desc(y)
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(GRID.mix(0.0))
        .label_style(text(TEXT_SIZE))
        .axis_desc_style(text(TEXT_SIZE));
}

/// The document with the style by which it shows on dark as well.
pub(super) fn for_light_and_dark(svg: &str) -> String {
    let rules: String = DARK
        .iter()
        .map(|(RGBColor(red, green, blue), dark)| {
            let light = format!("#{red:02X}{green:02X}{blue:02X}");
            format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
        })
        .collect();
    let style = format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}\n{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}
