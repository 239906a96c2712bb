//! `Migrations`: the unit that each rank is moving, and the units that it moves afterwards.
//!
//! As on a node, a rank moves one unit after another until the tick is over. Units that still wait
//! at the end of the tick do not move.

use super::cluster::Cluster;
use super::thrash::Thrash;

/// The units that move, and the units that move after them.
#[derive(Debug, Default)]
pub(super) struct Migrations {
    /// The moves of this tick that have not begun. The next one is the last element.
    waiting: Vec<Migration>,
    /// The moves under way.
    held: Vec<Migration>,
    pub thrash: Thrash,
    /// How many have begun.
    pub begun: u64,
    /// How many did not begin before their tick was over.
    pub late: u64,
}

#[derive(Debug)]
struct Migration {
    tick: u64,
    unit: usize,
    to: usize,
    begins_at: f64,
    ends_at: f64,
}

/// When a tick is.
#[derive(Debug, Clone, Copy)]
pub(super) struct TickTimes {
    pub tick: u64,
    pub begins_at: f64,
    pub seconds: f64,
}

impl Migrations {
    /// Plans the moves that the ranks decided: for each rank, the units and their new ranks.
    pub fn plan(
        &mut self,
        times: TickTimes,
        moves: &[Vec<(usize, usize)>],
        cluster: &mut Cluster<'_>,
    ) {
        let TickTimes { tick, begins_at: tick_begins, seconds } = times;
        let each = cluster.migration_seconds();
        for (from, moves) in moves.iter().enumerate().filter(|(_, moves)| !moves.is_empty()) {
            let mut taking: Vec<_> = moves.iter().map(|(_, to)| *to).collect();
            taking.sort_unstable();
            taking.dedup();
            taking.into_iter().chain([from]).for_each(|rank| cluster.coordinate(rank));
            for (place, (unit, to)) in moves.iter().enumerate() {
                let begins_at = tick_begins + place as f64 * each;
                if begins_at < tick_begins + seconds {
                    let (unit, to, ends_at) = (*unit, *to, begins_at + each);
                    self.waiting.push(Migration { tick, unit, to, begins_at, ends_at });
                } else {
                    self.late += 1;
                }
            }
        }
        // The sort is stable, so moves that begin together stay in the order of the ranks,
        // reversed.
        self.waiting.sort_by(|one, other| other.begins_at.total_cmp(&one.begins_at));
    }

    /// Begins and ends moves at a step that begins now. Times are rounded to steps.
    pub fn step(&mut self, now: f64, seconds: f64, cluster: &mut Cluster<'_>) {
        while let Some(next) = self.waiting.pop_if(|next| next.begins_at < now + seconds) {
            cluster.hold(next.unit);
            self.begun += 1;
            self.thrash.moved(next.tick, next.unit, cluster.units[next.unit].rank, next.to);
            self.held.push(next);
        }
        self.held.retain(|held| {
            let is_under_way = held.ends_at > now + seconds / 2.0;
            if !is_under_way {
                cluster.release(held.unit, held.to);
            }
            is_under_way
        });
    }
}
