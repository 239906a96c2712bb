//! Bugs of others, planted in the program of the storage interface.

/// The program as it is.
pub const PROGRAM: &str = include_str!("../../../../programs/class/log.lua");

/// A bug: a part of the program, and its wrong replacement.
pub struct PlantedBug {
    pub what: &'static str,
    good: &'static str,
    bad: &'static str,
}

impl PlantedBug {
    /// The program with the bug.
    pub fn planted(&self) -> String {
        assert_eq!(PROGRAM.matches(self.good).count(), 1, "{}: the program has changed", self.what);
        PROGRAM.replace(self.good, self.bad)
    }
}

/// Bugs that clients see soon.
pub const IN_FILL: [PlantedBug; 2] = [
    PlantedBug {
        what: "a fill over written data",
        good: "  elseif kind == DATA then\n    return -EROFS\n  elseif kind == DAMAGED then",
        bad: "  elseif kind == DATA then\n    map_set(key_of(position), 'F')\n  elseif kind == DAMAGED then",
    },
    PlantedBug {
        what: "a hole that only one of two clients can fill",
        good: "  elseif kind == DATA then\n    return -EROFS\n  elseif kind == DAMAGED then",
        bad: "  elseif kind == DATA or kind == FILLED then\n    return -EROFS\n  elseif kind == DAMAGED then",
    },
];

/// A bug that clients notice only if a sequencer is deposed without knowing it. The simulation
/// plants the same bug in its objects.
pub const IN_SEAL: PlantedBug = PlantedBug {
    what: "a seal that refuses nobody",
    good: "if status == 0 and epoch < sealed then",
    bad: "if status == 0 and epoch < 0 then",
};
