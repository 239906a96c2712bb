//! Collects what `slo-keep` measures, and computes its figures.

use nacre_terminal::out::note;

use super::Side;
use super::tally::Tally;
use super::tenants::{Conduct, Promises, TENANTS, Tenant};
use crate::figure::{Better, Figure};

/// The part of a tenant's requests that must be answered within the promised latency.
const KEPT_AT: f64 = 0.999;
/// The percentiles of the latency that the bench reports, with their names.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", KEPT_AT)];
/// The aim for the throughput with enforcement, as a part of the throughput without enforcement.
const THROUGHPUT_AIM: f64 = 0.9;

/// The measurements of all rounds.
pub(super) struct Measured {
    promises: Promises,
    sides: Vec<(Side, [Tally; TENANTS.len()])>,
    rounds: usize,
    discarded: usize,
}

impl Measured {
    /// No measurements yet. The first two sides must be those with and without enforcement.
    /// `discarded` rounds do not count.
    pub fn new(promises: Promises, sides: &[Side], discarded: usize) -> Self {
        let sides = sides.iter().map(|side| (*side, Default::default())).collect();
        Self { promises, sides, rounds: 0, discarded }
    }

    /// Adds the measurements of a round.
    pub fn add(&mut self, tallies: Vec<(Side, [Tally; TENANTS.len()])>) {
        self.rounds += 1;
        for (side, of_round) in tallies {
            let sums = self.sides.iter_mut().filter(|(known, _)| *known == side);
            for (sum, tally) in sums.flat_map(|(_, sums)| sums).zip(of_round) {
                sum.add(tally);
            }
        }
    }

    /// Reports every figure.
    pub fn report(&self, bench: &'static str, report: &mut dyn FnMut(Figure)) {
        for (number, tenant) in TENANTS.iter().enumerate() {
            for (side, tallies) in &self.sides {
                self.tenant_on_side(bench, tenant, *side, &tallies[number], report);
            }
            self.compare(bench, tenant, number, report);
        }
        self.throughput(bench, report);
        let of =
            (bench, format!("{}, the shortest SLO that could be promised", TENANTS[0].name), "ms");
        let [promised, thesis] =
            [self.promises.scale, 1.0].map(|scale| TENANTS[0].seconds * scale * 1e3);
        report(Figure::new(of, Better::Lower, promised, ("the thesis", thesis)));
        let tried = (self.rounds + self.discarded) as f64;
        let of = (bench, "rounds with at most 1% of stolen time", "rounds");
        report(Figure::new(of, Better::Higher, self.rounds as f64, ("rounds in all", tried)));
    }

    /// Reports a tenant's latencies on a side, compared with its SLO. Also reports how many of its
    /// requests were answered within the SLO.
    fn tenant_on_side(
        &self,
        bench: &'static str,
        tenant: &Tenant,
        side: Side,
        tally: &Tally,
        report: &mut dyn FnMut(Figure),
    ) {
        let slo = self.promises.slo_seconds(tenant);
        let is_promised = side == Side::Enforced && tenant.conduct == Conduct::Conforms;
        let (name, side) = (tenant.name, side.name());
        for (percentile, part) in PERCENTILES {
            let of = (bench, format!("{name}, {side}, {percentile}"), "ms");
            let millis = tally.seconds_at(part) * 1e3;
            let figure = Figure::new(of, Better::Lower, millis, ("its SLO", slo * 1e3));
            let has_aim = is_promised && part == KEPT_AT;
            report(if has_aim { figure.aiming_at(1.0) } else { figure });
        }
        let (within, all) = (tally.within(slo), tally.requests());
        let (violations, failed) = (all - within, tally.failed());
        note(&format!(
            "{name}, {side}: {violations} violations, of which {failed} failed requests"
        ));
        let of = (bench, format!("{name}, {side}, within its SLO"), "requests");
        let baseline = ("all its requests", all as f64);
        let figure = Figure::new(of, Better::Higher, within as f64, baseline);
        report(if is_promised { figure.aiming_at(KEPT_AT) } else { figure });
    }

    /// Reports a tenant's p99.9 and throughput with enforcement, compared with every other side.
    fn compare(
        &self,
        bench: &'static str,
        tenant: &Tenant,
        number: usize,
        report: &mut dyn FnMut(Figure),
    ) {
        let Some(((enforced, ours), others)) = self.sides.split_first() else { return };
        let name = format!("{}, {}", tenant.name, enforced.name());
        for (side, theirs) in others {
            let (ours, theirs) = (&ours[number], &theirs[number]);
            let of = (bench, format!("{name}, p99.9 beside"), "ms");
            let [p999, their_p999] = [ours, theirs].map(|tally| tally.seconds_at(KEPT_AT) * 1e3);
            report(Figure::new(of, Better::Lower, p999, (side.name(), their_p999)));
            let of = (bench, format!("{name}, throughput"), "kB/s");
            let [rate, their_rate] = [ours, theirs].map(|tally| tally.rate() / 1e3);
            report(Figure::new(of, Better::Higher, rate, (side.name(), their_rate)));
        }
    }

    /// Reports the throughput of all tenants together, compared with every other side.
    fn throughput(&self, bench: &'static str, report: &mut dyn FnMut(Figure)) {
        let rate = |tallies: &[Tally]| tallies.iter().map(Tally::rate).sum::<f64>() / 1e3;
        let Some(((enforced, ours), others)) = self.sides.split_first() else { return };
        for (side, theirs) in others {
            let of = (bench, format!("all tenants, {}, throughput", enforced.name()), "kB/s");
            let figure = Figure::new(of, Better::Higher, rate(ours), (side.name(), rate(theirs)));
            let has_aim = *side == Side::Unenforced;
            report(if has_aim { figure.aiming_at(THROUGHPUT_AIM) } else { figure });
        }
    }
}
