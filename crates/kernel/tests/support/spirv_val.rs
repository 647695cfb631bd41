//! The validator of SPIR-V, where it is installed.

use std::process::Command;

/// What `spirv-val` says, or `None` if it is not installed.
pub fn validate(name: &str, words: &[u32]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("elinvar-{}-{name}.spv", std::process::id()));
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&path, bytes).expect("the temporary directory can be written to");
    let out = Command::new("spirv-val").args(["--target-env", "vulkan1.2"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    out.ok().map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned())
}
