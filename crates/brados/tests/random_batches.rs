//! Runs random programs in random layouts. A batch must give the same results as its requests one
//! by one, and leave the object in the same state.
//!
//! `NACRE_SEEDS=n` tries n times as many programs; `NACRE_SEED=s` tries only the program of seed
//! `s`.

mod support;

use nacre_brados::layout::Choices;
use nacre_brados::{compile, with_layout};
use nacre_clock::Random;
use nacre_conformance::seeds;

use support::generator::Generated;
use support::{Subject, as_a_batch, one_by_one};

const PROGRAMS: u64 = 80;
const ROUNDS: usize = 12;
/// How many requests are drawn at a time. Those of one method form a batch.
const REQUESTS: usize = 8;
/// Two widths of slots in bytes. The first is too small for some rows, the second is large enough
/// for most.
const SLOT_BYTES: [u32; 2] = [6, 24];

/// Runs one seed's program. Returns how many of its requests were refused; `None` if it does not
/// compile.
fn run(seed: u64) -> Option<usize> {
    let mut random = Random::seeded(seed);
    let program = Generated::new(&mut random);
    let compiled = compile(&program.source).ok()?;
    let layouts = Choices::of(&compiled, &SLOT_BYTES).layouts;
    let source = match random.pick(&layouts) {
        Some(layout) => with_layout(&program.source, layout, &[]),
        None => program.source.clone(),
    };
    let (single, batched) = (Subject::new(&source), Subject::new(&source));
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let mut drawn: Vec<_> = (0..REQUESTS).map(|_| program.request(&mut random)).collect();
        for (_, row) in &mut drawn {
            // A request without columns is refused: others of its batch are not.
            if random.one_in(8) {
                row.clear();
            }
        }
        drawn.sort_by(|(a, _), (b, _)| a.cmp(b));
        for of_a_method in drawn.chunk_by(|(a, _), (b, _)| a == b) {
            let method = &of_a_method[0].0;
            let rows: Vec<_> = of_a_method.iter().map(|(_, row)| row.clone()).collect();
            let expected = one_by_one(&single, method, &rows);
            let got = as_a_batch(&batched, method, &rows);
            assert_eq!(got, expected, "seed {seed}: {method} of {rows:?}\n{source}");
            assert_eq!(batched.content(), single.content(), "seed {seed}: {method}\n{source}");
            refused += expected.iter().filter(|(status, _)| *status < 0).count();
        }
    }
    Some(refused)
}

#[test]
fn a_batch_gives_the_same_results_as_its_requests_one_by_one() {
    let refused: Vec<_> = seeds(PROGRAMS).filter_map(run).collect();
    if refused.len() > 1 {
        assert!(refused.len() as u64 * 3 > PROGRAMS, "only {} compile", refused.len());
        assert!(refused.iter().sum::<usize>() > 50, "too few failed: {refused:?}");
    }
}
