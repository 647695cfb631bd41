//! Detection of a Vulkan device to test on. On Debian a software one is installed, if that is
//! allowed.

use crate::program;
use crate::test::Outcome;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Enables Vulkan's validation layer.
pub const VALIDATE: &str = "ELINVAR_VULKAN_VALIDATION";

/// Debian's packages of the loader, a software driver, and the validation layer.
const PACKAGES: [&str; 3] = ["libvulkan1", "mesa-vulkan-drivers", "vulkan-validationlayers"];

/// Installs missing packages, on Debian and its derivatives, if this is root. Callers check whether
/// it worked.
pub fn install() {
    let is_there = |package: &&str| {
        let dpkg = Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]).output();
        dpkg.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("install ok installed"))
    };
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0");
    if !Path::new("/etc/debian_version").is_file() || !root || PACKAGES.iter().all(is_there) {
        return;
    }
    println!("installing {}", PACKAGES.join(" "));
    let apt = |args: &[&str]| {
        let status = Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").status();
        status.is_ok_and(|s| s.success())
    };
    let install = [&["install", "-qq", "-y", "--no-install-recommends"][..], &PACKAGES].concat();
    if !apt(&install) && (!apt(&["update", "-qq"]) || !apt(&install)) {
        println!("it could not be installed");
    }
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
