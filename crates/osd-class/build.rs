//! Build script. With the feature `plugin`, it compiles the C++ shim between this crate and Ceph's
//! class API. It also records the version of the Ceph headers that the shim was compiled with.

use std::process::Command;

/// Where Debian's packages put the headers.
const OBJCLASS_HEADER: &str = "/usr/include/rados/objclass.h";
/// The package whose version is that of the headers.
const HEADER_PACKAGE: &str = "librados-dev";

#[expect(clippy::disallowed_methods, reason = "Cargo passes a build script its settings so")]
fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=src/plugin/shim.cc");
    println!("cargo:rerun-if-changed={OBJCLASS_HEADER}");
    if std::env::var_os("CARGO_FEATURE_PLUGIN").is_none() {
        return Ok(());
    }
    println!("cargo:rustc-env=NACRE_CEPH_VERSION={}", ceph_version()?);
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fvisibility=hidden")
        .file("src/plugin/shim.cc")
        .try_compile("nacre_osd_shim")
        .map_err(|error| format!("the shim: {error}; `make ceph-plugin` installs the headers"))
}

/// The version as an OSD says it: Debian adds to it behind a `+` or `-`.
fn ceph_version() -> Result<String, String> {
    let hint = format!("{HEADER_PACKAGE} is not installed; `make ceph-plugin` does it");
    let arguments = ["-W", "-f", "${Version}", HEADER_PACKAGE];
    let output = Command::new("dpkg-query").args(arguments).output();
    let output = output.map_err(|error| format!("dpkg-query: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.split(['+', '-']).next() {
        Some(version) if !version.is_empty() => Ok(version.to_owned()),
        _ => Err(hint),
    }
}
