//! Draws the data-flow graph of a program as SVG, for `nacre brados explain`.
//!
//! Each collection is a box, to the right of the boxes from which its rows come. An arrow for a
//! write at the end of the request points back to the left. Solid lines are joins, dashed lines are
//! negation and aggregation, dotted lines are messages and writes at the end of the request.

use std::fmt::Write;

use crate::analysis::Analysis;
use crate::ir::{CollectionId, Program, Reading};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

const BOX_WIDTH: usize = 150;
const BOX_HEIGHT: usize = 32;
const COLUMN_WIDTH: usize = 230;
const ROW_HEIGHT: usize = 56;
const MARGIN: usize = 24;

/// The graph of a program.
pub fn data_flow_svg(analysis: &Analysis) -> String {
    let positions = BoxPositions::new(analysis);
    let mut svg = String::new();
    let (width, height) = positions.size();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"12\">"
    );
    svg.push_str(
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
    );
    for (from, to, style) in edges(&analysis.program) {
        edge(&mut svg, positions.at(from), positions.at(to), style);
    }
    for id in analysis.program.ids() {
        node(&mut svg, &analysis.program, id, positions.at(id));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where each collection stands: column and row.
struct BoxPositions(Vec<(usize, usize)>);

impl BoxPositions {
    fn new(analysis: &Analysis) -> Self {
        let mut columns = vec![0; analysis.program.collections.len()];
        for stratum in &analysis.strata {
            let rules =
                analysis.program.rules.iter().filter(|rule| {
                    rule.op == MergeOp::Now && stratum.collections.contains(&rule.head)
                });
            let before = rules
                .flat_map(|rule| rule.body.reads(rule.span))
                .filter(|(read, ..)| !stratum.collections.contains(read))
                .map(|(read, ..)| columns[read.0] + 1)
                .max();
            for id in &stratum.collections {
                columns[id.0] = before.unwrap_or(0);
            }
        }
        let mut heights = vec![0; columns.iter().max().map_or(0, |most| most + 1)];
        let place = |column: usize| {
            heights[column] += 1;
            (column, heights[column] - 1)
        };
        Self(columns.into_iter().map(place).collect())
    }

    /// The upper left corner of a box.
    fn at(&self, id: CollectionId) -> (usize, usize) {
        let (column, row) = self.0[id.0];
        (MARGIN + column * COLUMN_WIDTH, MARGIN + row * ROW_HEIGHT)
    }

    fn size(&self) -> (usize, usize) {
        let columns = self.0.iter().map(|(column, _)| column + 1).max().unwrap_or(0);
        let rows = self.0.iter().map(|(_, row)| row + 1).max().unwrap_or(0);
        (2 * MARGIN + columns * COLUMN_WIDTH, 2 * MARGIN + rows * ROW_HEIGHT)
    }
}

fn edges(program: &Program) -> Vec<(CollectionId, CollectionId, &'static str)> {
    let mut edges = vec![];
    for rule in &program.rules {
        for (read, reading, _) in rule.body.reads(rule.span) {
            let style = match (rule.op, reading) {
                (MergeOp::Now, Reading::Joined) => "",
                (MergeOp::Now, _) => " stroke-dasharray=\"7 4\"",
                _ => " stroke-dasharray=\"2 4\"",
            };
            let edge = (read, rule.head, style);
            if !edges.contains(&edge) {
                edges.push(edge);
            }
        }
    }
    edges
}

fn edge(svg: &mut String, from: (usize, usize), to: (usize, usize), style: &str) {
    let (x1, y1) = (from.0 + BOX_WIDTH, from.1 + BOX_HEIGHT / 2);
    let (x2, y2) = (to.0, to.1 + BOX_HEIGHT / 2);
    // A curve leaves its box at the right side and enters the other box at the left side, even if
    // the other box is further left.
    let bend = 40;
    let _ = writeln!(
        svg,
        "<path d=\"M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#555\" \
         marker-end=\"url(#tip)\"{style}/>",
        x1 + bend,
        x2.saturating_sub(bend)
    );
}

fn node(svg: &mut String, program: &Program, id: CollectionId, (x, y): (usize, usize)) {
    let collection = program.collection(id);
    let fill = match collection.kind {
        Kind::Input => "#cfe8cf",
        Kind::Output => "#f6dcc0",
        Kind::Table => "#cfdcf2",
        Kind::Channel => "#ead0ea",
        Kind::Scratch | Kind::Temp => "#f2f2f2",
    };
    let name = collection.name.replace('&', "&amp;").replace('<', "&lt;");
    let shown: String = name.chars().take(20).collect();
    let kind = collection.kind.as_str();
    let _ = writeln!(
        svg,
        "<g><title>{kind} {name}</title><rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" \
         height=\"{BOX_HEIGHT}\" rx=\"5\" fill=\"{fill}\" stroke=\"#333\"/><text x=\"{}\" y=\"{}\" \
         text-anchor=\"middle\">{shown}</text></g>",
        x + BOX_WIDTH / 2,
        y + BOX_HEIGHT / 2 + 4
    );
}
