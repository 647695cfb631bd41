//! The interpreter's buffers and launches for the machine that runs PTX.

use elinvar_kernel::emit::ptx;
use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::{Elem, Kernel, TensorView};
use emulated_cuda as machine;

/// A device that takes every text of the emitter.
const CAPABILITY: u32 = 90;
const VERSION: (u32, u32) = (8, 4);

/// Runs a module on a launch.
///
/// # Panics
/// If the text is refused, or does what must not be done.
pub fn run(k: &Kernel, text: &str, launch: &Launch, buffers: &mut [Memory]) {
    let program = machine::parse(text, CAPABILITY, VERSION).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = machine::Memory::default();
    let mut places = Vec::new();
    for b in buffers.iter() {
        let all = bytes(b);
        let place = memory.add(all.len()).expect("the system has memory");
        memory.write(place, &all);
        places.push(place);
    }
    let mut params: Vec<u8> = k.views.iter().flat_map(|v| map(k, v, launch, &places)).collect();
    params.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    for p in &launch.params {
        let size = (p.scalar.bits() / 8) as usize;
        params.resize(params.len().next_multiple_of(size), 0);
        params.extend(&p.bits.to_le_bytes()[..size]);
    }
    let launch = machine::Launch { groups: launch.groups, dynamic: ptx::dynamic_shared(k), params };
    machine::run(&program, &launch, &memory).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for ((to, place), b) in buffers.iter_mut().zip(places).zip(&k.buffers) {
        let size = b.elem.size() as usize;
        for (cell, c) in to.cells.iter_mut().zip(memory.bytes(place).chunks_exact(size)) {
            let mut all = [0; 8];
            all[..size].copy_from_slice(c);
            *cell = u64::from_le_bytes(all);
        }
    }
}

/// What the driver makes of a view.
fn map(k: &Kernel, v: &TensorView, launch: &Launch, places: &[u64]) -> [u8; ptx::TENSOR_MAP_BYTES] {
    let number = |i: u32| launch.params[i as usize].bits;
    let element = u64::from(k.buffers[v.buffer as usize].elem.size());
    let map = machine::TensorMap {
        address: places[v.buffer as usize] + number(v.offset) * element,
        element,
        rounds: k.buffers[v.buffer as usize].elem == Elem::F32,
        sizes: v.sizes.map(number),
        strides: v.strides.map(|i| number(i) * element),
        shape: [128 / element, v.lines.into(), 1],
    };
    map.check().unwrap_or_else(|what| panic!("{}: {what}", v.name)).bytes()
}

fn bytes(m: &Memory) -> Vec<u8> {
    let size = m.elem.size() as usize;
    m.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect()
}
