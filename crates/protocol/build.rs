//! Build script: compiles the protocol. It needs no `protoc`, because `protox` is one written in
//! Rust.

use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "Cargo passes a build script its settings so")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_file("nacre/v1/nacre.proto")?.open_file("nacre/v1/osd.proto")?;
    let descriptors = Path::new(&std::env::var("OUT_DIR")?).join("nacre.v1.bin");
    std::fs::write(descriptors, compiler.encode_file_descriptor_set())?;
    // Messages only: session and server are written by hand, they send batches that are encoded
    // already.
    prost_build::Config::new()
        .bytes(["."])
        // Box the rare error, because it would make all other answers larger, and answers are moved
        // often.
        .boxed(".nacre.v1.ServerMessage.body.error")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
