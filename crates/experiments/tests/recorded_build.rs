//! Tests the recording of a build: `scripts/record-build` makes it from the output of strace, and
//! the simulator replays it.

use std::path::Path;
use std::process::Command;

use nacre_experiments::{
    RecordedBuild, RecordedStep, SimulatedFigure, SimulatedReport, StoredReport,
};

/// The output of strace for a build in FOLDER. Two processes run at the same time.
const STRACE: &str = r#"7 100.000000 execve("/usr/bin/make", ["make"], 0x0 /* 1 vars */) = 0
7 100.100000 openat(AT_FDCWD<FOLDER>, "src/main.c", O_RDONLY) = 3<FOLDER/src/main.c>
7 100.200000 newfstatat(AT_FDCWD<FOLDER>, "src/main.c", {st_mode=S_IFREG|0644, ...}, 0) = 0
7 100.300000 newfstatat(3<FOLDER/src/main.c>, "", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0
8 100.400000 openat(AT_FDCWD<FOLDER/lib>, "a.o", O_WRONLY|O_CREAT|O_TRUNC, 0666 <unfinished ...>
7 100.500000 access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
8 100.600000 <... openat resumed>) = 4<FOLDER/lib/a.o>
8 101.000000 rename("a.o", "b.o") = 0
8 101.100000 access("deep/er/missing.h", F_OK) = -1 ENOENT (No such file or directory)
7 103.000000 getdents64(5<FOLDER/src>, 0x55 /* 3 entries */, 32768) = 72
7 103.100000 chdir("src") = 0
7 103.200000 unlink("old.c") = 0
"#;

#[test]
fn a_build_is_recorded_as_the_requests_that_a_client_would_send() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = std::fs::canonicalize(scratch.path()).unwrap();
    let (trace, out) = (folder.join("strace"), folder.join("build.json"));
    std::fs::write(&trace, STRACE.replace("FOLDER", folder.to_str().unwrap())).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/record-build");
    let run = Command::new(script).arg(&folder).arg(&out).arg("--from").arg(&trace).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));

    let build = RecordedBuild::from_json(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let step = |second, directory: &str, reads, writes| RecordedStep {
        second,
        directory: directory.to_owned(),
        reads,
        writes,
    };
    // The build looks up `src/main.c` twice, but a client would request it only once. A rename
    // changes two names. Files outside of the folder are left out.
    let expected = [
        step(0, "lib", 0, 1),
        step(0, "src", 1, 0),
        step(1, "lib", 0, 2),
        step(1, "lib/deep", 1, 0),
        step(3, "src", 1, 1),
    ];
    assert_eq!(build.steps, expected);
    assert_eq!((build.lookups, build.cached_names), (7, 16384));

    let report = SimulatedFigure::CompileSpeedup.simulate_build(&build).unwrap();
    assert_eq!(report.build.as_ref().unwrap().operations, 7);
    assert_eq!(SimulatedReport::from_json(&report.to_json().unwrap()).unwrap(), report);
    assert!(SimulatedFigure::OneRank.simulate_build(&build).is_err());
}
