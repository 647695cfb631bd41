//! naga, the compiler of wgpu: whether it takes a text.

use naga::Module;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

/// The module of a text, validated.
///
/// # Errors
/// What naga says, with the text.
pub fn read(text: &str) -> Result<(Module, ModuleInfo), String> {
    let module =
        naga::front::wgsl::parse_str(text).map_err(|e| format!("{}\n{text}", e.emit_to_string(text)))?;
    let info = validator().validate(&module);
    let info = info.map_err(|e| format!("{}\n{text}", e.emit_to_string(text)))?;
    Ok((module, info))
}

/// What the emitter may use: subgroups, and else nothing that WGSL has not everywhere.
pub fn validator() -> Validator {
    Validator::new(ValidationFlags::all(), Capabilities::SUBGROUP)
}

/// Validates a text.
///
/// # Errors
/// What naga says, with the text.
pub fn validate(text: &str) -> Result<(), String> {
    read(text).map(|_| ())
}
