//! `handover`: how long it takes to pass a message to a thread that waits on another CPU. The
//! baseline passes the message to a thread on the same CPU.
//!
//! A request crosses several threads on its way to the disk and back. If few requests are in
//! flight, most of their latency is the time to wake these threads. Only fewer changes of thread
//! can reduce this part of a latency.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

/// Round trips of a measurement.
const ROUND_TRIPS: u32 = 20_000;

pub(crate) fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let usable = sched_getaffinity(None).map_err(failed)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu)).take(2).collect();
    let &[here, there] = cpus.as_slice() else {
        return Err(Error::unsupported("this machine has only one CPU; the bench needs two")
            .during("handover"));
    };
    let (mut other, mut same) = (vec![], vec![]);
    for _ in 0..setup.rounds {
        other.push(one_way_micros(here, there)?);
        same.push(one_way_micros(here, here)?);
    }
    let of = ("handover", "to a thread that waits on another CPU", "us");
    let baseline = ("to one on the same CPU", median(same));
    report(Figure::new(of, Better::Lower, median(other), baseline));
    Ok(())
}

/// The time to pass a message by a socket from a thread on one CPU to a thread on another.
fn one_way_micros(here: usize, there: usize) -> Result<f64> {
    // Use new threads, because the binding of a thread to a CPU ends with the thread.
    let measured = thread::spawn(move || -> io::Result<f64> {
        let (mut ours, mut theirs) = UnixStream::pair()?;
        let peer = thread::spawn(move || -> io::Result<()> {
            bind(there)?;
            let mut byte = [0];
            for _ in 0..ROUND_TRIPS {
                theirs.read_exact(&mut byte)?;
                theirs.write_all(&byte)?;
            }
            Ok(())
        });
        bind(here)?;
        let clock = SystemClock::default();
        let (begin, mut byte) = (clock.monotonic(), [0]);
        for _ in 0..ROUND_TRIPS {
            ours.write_all(&byte)?;
            ours.read_exact(&mut byte)?;
        }
        let span = clock.monotonic() - begin;
        drop(ours);
        peer.join().map_err(|_| io::Error::other("a thread panicked"))??;
        Ok(span.as_secs_f64() * 1e6 / f64::from(ROUND_TRIPS) / 2.0)
    });
    measured.join().map_err(|_| failed("a thread panicked"))?.map_err(failed)
}

fn bind(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::unavailable(error.to_string()).during("handover")
}
