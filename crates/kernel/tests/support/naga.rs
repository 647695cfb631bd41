//! naga, the compiler of wgpu: whether it takes a text.

use naga::Module;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

/// The module of a text, validated.
///
/// # Errors
/// What naga says, with the text.
pub fn read(text: &str) -> Result<(Module, ModuleInfo), String> {
    read_with(text, PROMISED)
}

/// The same on a device that can do this.
///
/// # Errors
/// What naga says, with the text.
pub fn read_with(text: &str, capabilities: Capabilities) -> Result<(Module, ModuleInfo), String> {
    let module =
        naga::front::wgsl::parse_str(text).map_err(|e| format!("{}\n{text}", e.emit_to_string(text)))?;
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    let info = info.map_err(|e| format!("{}\n{text}", e.emit_to_string(text)))?;
    Ok((module, info))
}

/// What the emitter may use everywhere: subgroups, and else nothing that WGSL has not.
pub const PROMISED: Capabilities = Capabilities::SUBGROUP;

/// Validates a text.
///
/// # Errors
/// What naga says, with the text.
pub fn validate(text: &str) -> Result<(), String> {
    read(text).map(|_| ())
}
