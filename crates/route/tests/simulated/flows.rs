//! The rules between which a simulation changes, chosen by its seed.

use nacre_clock::Random;
use nacre_route::{ApplicationName, Move, ObjectMatch, Record, Rule, SwitchName, Wanted};

use super::Endpoint;
use super::coin::coin;
use super::store::destination;

/// Who keeps reads behind writes (sRoute paper, section 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The controller, which moves all bytes when it changes rules.
    Controller,
    /// The switches at the sources, by agreement.
    Agreement,
    /// One switch at the target.
    AtTarget,
    /// A switch at the new endpoint, which sends reads of other bytes back.
    BackPointer,
    /// One switch at the target, by a program that throws a coin.
    Program,
}

/// Rules of the switches, by number.
type Config = &'static [&'static [&'static str]];

const NONE: Config = &[&[], &[], &[]];
const WHOLE: [&str; 1] = ["* rw data/x -> object spill/y"];
const PART: [&str; 1] = ["* rw data/x 16..32 -> object spill/y"];
const SPILL_AGREED: [&str; 2] =
    ["* w data/x -> object spill/y follow-everywhere", "* r data/x -> home"];
const RECLAIM_AGREED: [&str; 1] = ["* w data/x -> home follow-everywhere"];
const SPILL: [&str; 2] = ["* w data/x -> object spill/y follow", "* r data/x -> home"];
const RECLAIM: [&str; 1] = ["* w data/x -> home follow"];

const PROGRAM: [&str; 2] = ["* w data/x -> program coin follow", "* r data/x -> home"];

const CONTROLLER: [Config; 3] = [NONE, &[&WHOLE, &WHOLE, &WHOLE], &[&PART, &PART, &PART]];
const AGREEMENT: [Config; 3] = [
    NONE,
    &[&SPILL_AGREED, &SPILL_AGREED, &SPILL_AGREED],
    &[&RECLAIM_AGREED, &RECLAIM_AGREED, &RECLAIM_AGREED],
];
const AT_TARGET: [Config; 3] = [&[&[]], &[&SPILL], &[&RECLAIM]];
const BY_PROGRAM: [Config; 3] = [&[&[]], &[&PROGRAM], &[&PROGRAM]];
const BACK_POINTER: [Config; 3] = [NONE, &[&WHOLE, &WHOLE, &SPILL], &[&WHOLE, &WHOLE, &RECLAIM]];

impl Flow {
    pub fn of(seed: u64) -> Self {
        match seed % 4 {
            0 => Self::Controller,
            1 => Self::Agreement,
            2 if seed % 8 == 2 => Self::AtTarget,
            2 => Self::Program,
            _ => Self::BackPointer,
        }
    }

    fn configs(self) -> [Config; 3] {
        match self {
            Self::Controller => CONTROLLER,
            Self::Agreement => AGREEMENT,
            Self::AtTarget => AT_TARGET,
            Self::BackPointer => BACK_POINTER,
            Self::Program => BY_PROGRAM,
        }
    }

    pub fn switches(self) -> usize {
        self.configs()[0].len()
    }

    /// The switch that a client asks.
    pub fn switch_of(self, client: usize) -> usize {
        match self {
            Self::BackPointer => client % 2,
            _ => client % self.switches(),
        }
    }

    /// The switch in front of an endpoint, for IO of another one.
    pub fn switch_before(self, endpoint: Endpoint, from: usize) -> Option<usize> {
        (self == Self::BackPointer && endpoint == Endpoint::Away && from != 2).then_some(2)
    }

    /// Other rules than those of a record.
    pub fn next(self, record: &Record, random: &mut Random) -> Wanted {
        let mut all = self.configs().map(wanted);
        if self == Self::Program {
            for (version, wanted) in all.iter_mut().enumerate() {
                wanted.programs = coin(version as u64);
            }
        }
        let is_now = |wanted: &Wanted| {
            wanted.rules == record.wanted.rules && wanted.programs == record.wanted.programs
        };
        let now = all.iter().position(is_now);
        let others: Vec<usize> = (0..all.len()).filter(|at| Some(*at) != now).collect();
        let next = *random.pick(&others).unwrap();
        let mut wanted = all[next].clone();
        let (home, away) = (Endpoint::Home, Endpoint::Away);
        match (self, next) {
            (Self::Controller, _) => wanted.moves = vec![copy(home, away), copy(away, home)],
            (_, 0) => {
                wanted.moves = vec![copy(away, home)];
                wanted.settled = vec![ObjectMatch::parse("data/x").unwrap()];
            }
            _ => {}
        }
        wanted
    }
}

fn copy(from: Endpoint, to: Endpoint) -> Move {
    let object = "data/x".parse().unwrap();
    Move { object, from: destination(from), to: destination(to) }
}

pub fn name(switch: usize) -> SwitchName {
    SwitchName::new(format!("s{switch}")).unwrap()
}

fn wanted(config: Config) -> Wanted {
    let application = ApplicationName::new("test").unwrap();
    let rule =
        |text: &&str| Rule::parse(&application, &text.split(' ').collect::<Vec<_>>()).unwrap();
    let insertions = |texts: &[&str]| vec![texts.iter().map(rule).collect()];
    let rules = config.iter().enumerate().map(|(at, texts)| (name(at), insertions(texts)));
    Wanted { rules: rules.collect(), ..Wanted::default() }
}
