//! WGSL of the library's kernels: emitted or refused, validated by naga, and run on a Vulkan device
//! as the SPIR-V that naga makes of it, with the interpreter's bits.

use crate::naga_compiler::{PROMISED, read, validate};
use crate::words::{difference, from_words, words};
use elinvar_driver::{Driver, Slice, Vulkan};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::{Dialect, Fma, Target, emit, legal, param_words};
use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::{Access, Buffer, Elem};
use naga::back::spv;
use naga::valid::{ValidationFlags, Validator};
use naga::{AddressSpace, ShaderStage, StorageAccess};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

/// No more than the specification promises, for naga.
pub const BARE: Target = Target { dialect: Dialect::Naga, ..Target::WEBGPU };

/// Why kernels are refused.
const REFUSALS: [&str; 7] = [
    "WGSL has no 64-bit floats",
    "WGSL has no matrix fragments",
    "WGSL has no TMA and wgmma",
    "storage buffers, and the device has",
    "bytes of shared memory, and the device has",
    "invocations, and the device has",
    "only a part of the workgroup may come here",
];

/// The text of a kernel, or which of the reasons it is refused for.
///
/// # Panics
/// If it is refused for another one.
pub fn emitted(k: &Kernel, target: &Target) -> Result<String, &'static str> {
    emit(k, target).map_err(|e| {
        let why = REFUSALS.into_iter().find(|why| e.0.contains(why));
        why.unwrap_or_else(|| panic!("{e}"))
    })
}

/// Writes the text for Tint to the folder that `ELINVAR_WGSL_DIR` names, if it does, so that Dawn
/// can look at it.
fn keep(k: &Kernel, target: &Target) {
    let Some(dir) = std::env::var_os("ELINVAR_WGSL_DIR") else { return };
    for (word, subgroup) in [("", None), (".lanes", k.subgroup)] {
        let target = Target { dialect: Dialect::Tint, subgroup, ..*target };
        if let Ok(text) = emitted(k, &target) {
            let path = std::path::Path::new(&dir).join(format!("{}{word}.wgsl", k.name));
            std::fs::write(path, text).expect("the directory can be written to");
        }
    }
}

#[test]
fn naga_takes_what_is_emitted() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for k in &crate::spirv::library() {
        for (word, subgroup) in [("lanes", None), ("subgroups", k.subgroup)] {
            // The texts differ only where there are lanes.
            if word == "subgroups" && k.subgroup.is_none() {
                continue;
            }
            match emitted(k, &Target { subgroup, ..BARE }) {
                Ok(text) => {
                    validate(&text).unwrap_or_else(|e| panic!("{e}"));
                    *counts.entry(word).or_default() += 1;
                }
                Err(why) => {
                    println!("{}: {why}", k.name);
                    *counts.entry(why).or_default() += 1;
                }
            }
        }
        keep(k, &BARE);
    }
    println!("{counts:?}");
    assert!(counts["lanes"] > 200, "{counts:?}");
}

/// The device, and what its arithmetic is as naga has it compiled. There is none where no Vulkan
/// is.
fn device() -> Option<&'static (Vulkan, Target)> {
    static DEVICE: OnceLock<Option<(Vulkan, Target)>> = OnceLock::new();
    DEVICE
        .get_or_init(|| {
            let d = Vulkan::open(0).map_err(|e| println!("skipped: {e}")).ok()?;
            let (a, i) = (*d.arithmetic(), d.info().clone());
            let target = Target {
                fma: if a.fused { Fma::Fused } else { Fma::Built },
                division: a.division[0],
                square_root: a.square_root[0],
                adds_subnormals: a.adds_subnormals[0],
                fuses_subnormals: a.fuses_subnormals[0],
                rounds_subnormals: a.rounds_subnormals[0],
                // naga does not say that sums and products must stay what they are.
                contracts: true,
                keeps_zeros: a.keeps_zeros,
                subgroup: None,
                buffers: i.buffers - 1,
                shared: i.shared,
                invocations: i.invocations,
                ..BARE
            };
            Some((d, target))
        })
        .as_ref()
}

/// Invocations of a launch that is run.
const MAX_THREADS: u64 = 4096;

/// Runs a kernel as WGSL the first time that it is met, if `ELINVAR_WGSL` is set: compilers of
/// software devices take long with it.
pub fn as_wgsl(kernel: &Kernel, launch: &Launch, before: &[Memory], want: &[Memory]) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let threads: u64 =
        launch.groups.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(kernel.invocations());
    if threads > MAX_THREADS {
        return;
    }
    crate::dawn::sample(kernel, launch, before, want);
    if std::env::var_os("ELINVAR_WGSL").is_none() {
        return;
    }
    if !SEEN.lock().expect("no thread panics while it holds the lock").insert(kernel.name.clone()) {
        return;
    }
    let Some((d, target)) = device() else { return };
    keep(kernel, target);
    let text = match emitted(kernel, target) {
        Ok(text) => text,
        Err(why) => return println!("wgsl refused {}: {why}", kernel.name),
    };
    let start = std::time::Instant::now();
    let got = run(d, kernel, target, &text, launch, before);
    println!("wgsl ran {}: {} bytes of text, {:?}", kernel.name, text.len(), start.elapsed());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        if let Some(at) = difference(got, want) {
            let (got, want) = (got.cells[at], want.cells[at]);
            let ir = elinvar_kernel::text::print(kernel);
            panic!("{}: buffer {i}, element {at} is {got:#x}, not {want:#x}\n{ir}\n{text}", kernel.name);
        }
    }
}

/// The buffers after a launch.
#[allow(unsafe_code, reason = "another compiler's module")]
fn run(
    d: &Vulkan,
    kernel: &Kernel,
    target: &Target,
    text: &str,
    launch: &Launch,
    buffers: &[Memory],
) -> Vec<Memory> {
    let code = spirv(text).unwrap_or_else(|e| panic!("{e}"));
    let mut bound = legal(kernel, target).expect("it was emitted");
    bound.params.clear();
    bound.buffers.push(Buffer { name: "params".to_string(), elem: Elem::U32, access: Access::Read });
    // SAFETY: naga has validated the text and made the module of it for a Vulkan device, with the
    // bindings that the emitter's documentation tells, which are those of `bound`.
    let module = unsafe { d.module_of_spirv(&bound, &code) }.unwrap_or_else(|e| panic!("{e}\n{text}"));
    let given: Vec<Vec<u32>> = buffers.iter().map(words).chain([param_words(&launch.params)]).collect();
    let memory: Vec<_> = (given.iter())
        .map(|w| d.allocate(4 * w.len().max(1) as u64).unwrap_or_else(|e| panic!("{e}")))
        .collect();
    let slices: Vec<Slice<'_, Vulkan>> = (memory.iter().zip(&given))
        .map(|(memory, w)| Slice { memory, offset: 0, len: 4 * w.len().max(1) as u64 })
        .collect();
    for (&slice, words) in slices.iter().zip(&given).filter(|(_, w)| !w.is_empty()) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        d.write(slice, &bytes).unwrap_or_else(|e| panic!("{e}"));
    }
    let launch = Launch { groups: launch.groups, params: Vec::new() };
    d.launch(&module, &slices, &launch, None).unwrap_or_else(|e| panic!("{e}"));
    let read = |(i, m): (usize, &Memory)| {
        let mut bytes = vec![0; 4 * given[i].len()];
        if !bytes.is_empty() {
            d.read(slices[i], &mut bytes).unwrap_or_else(|e| panic!("{e}"));
        }
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("of four"))).collect();
        from_words(m.elem, m.cells.len(), &words)
    };
    buffers.iter().enumerate().map(read).collect()
}

/// A text as SPIR-V, with the parameters in a storage buffer: all bindings are of one kind, as in
/// what this project emits for Vulkan itself.
///
/// # Errors
/// What naga says, with the text.
fn spirv(text: &str) -> Result<Vec<u32>, String> {
    let (mut module, _) = read(text)?;
    let places: Vec<_> = module.global_variables.iter().map(|(handle, _)| handle).collect();
    for handle in places {
        let variable = module.global_variables.get_mut(handle);
        if variable.space == AddressSpace::Uniform {
            variable.space = AddressSpace::Storage { access: StorageAccess::LOAD };
        }
    }
    let info = Validator::new(ValidationFlags::all(), PROMISED)
        .validate(&module)
        .map_err(|e| e.emit_to_string(text))?;
    let options =
        spv::Options { lang_version: (1, 3), flags: spv::WriterFlags::empty(), ..Default::default() };
    let entry = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: "main".to_string() };
    spv::write_vec(&module, &info, &options, Some(&entry)).map_err(|e| e.to_string())
}
