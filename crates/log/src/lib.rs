//! The shared log: views, striping, sequencer, recovery, client.
