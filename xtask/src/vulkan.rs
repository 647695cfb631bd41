//! Detection of a Vulkan device to test on. On Debian a software one is installed, if that is
//! allowed.

use crate::cross;
use crate::program;
use crate::step::Outcome;
use std::path::Path;
use std::sync::OnceLock;

/// Enables Vulkan's validation layer.
pub const VALIDATE: &str = "ELINVAR_VULKAN_VALIDATION";

/// Mesa's software device without its optimiser (GALLIVM_PERF of Mesa's documentation), which takes
/// ten times as long for long formulas, where most of the time goes into compiling. Whole trainings
/// and the capability table run with it.
pub const UNOPTIMIZED: (&str, &str) = ("GALLIVM_PERF", "nopt");

/// Debian's packages of the loader, a software driver, and the validation layer.
const PACKAGES: [&str; 3] = ["libvulkan1", "mesa-vulkan-drivers", "vulkan-validationlayers"];

/// Installs them, see [`cross::install`].
pub fn install() {
    cross::install(&PACKAGES);
}

/// `None` if there is a device; else the outcome of a skipped step.
pub fn there() -> Option<Outcome> {
    static THERE: OnceLock<bool> = OnceLock::new();
    let there = *THERE.get_or_init(|| {
        let devices = program::lab().map(|mut lab| lab.arg("devices").output());
        devices.is_ok_and(|o| o.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("vulkan:0")))
    });
    let why = "no Vulkan device; on Debian: apt-get install libvulkan1 mesa-vulkan-drivers";
    (!there).then(|| Outcome::Skipped(why.into()))
}

/// `None` if there is the validation layer; else the outcome of a skipped step.
pub fn layer() -> Option<Outcome> {
    let places = ["/usr/share/vulkan/explicit_layer.d", "/etc/vulkan/explicit_layer.d"];
    let is_there = |dir: &&str| Path::new(dir).join("VkLayer_khronos_validation.json").is_file();
    let why = "no validation layer; on Debian: apt-get install vulkan-validationlayers";
    (!places.iter().any(is_there)).then(|| Outcome::Skipped(why.into()))
}
