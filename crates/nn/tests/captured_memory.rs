//! A captured step of the processor that runs out of memory: nothing is lost, however far it comes.
//!
//! The limit is the process's, so no other tests are in this file.

use elinvar_core::{ErrorKind, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_nn::layers::{BatchNorm1d, Dropout, Linear};
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::train::{Measured, TrainStep};
use elinvar_nn::{Generator, Layer, Module, Sequential, Tensor};
use elinvar_ops::backend::Memory;

type B = Cpu;
type Net = Sequential<B>;
type Pair = (Tensor<B>, Tensor<B>);

/// Large enough for the limit, which does not see what a thread keeps for itself.
const WIDTH: usize = 256;
const STEP_BYTES: u64 = 256 << 10;

fn net(d: &CpuDevice) -> Net {
    let g = &mut Generator::new(3);
    Sequential::new()
        .with(Linear::new(WIDTH, WIDTH, g, d))
        .with(BatchNorm1d::new(WIDTH, d))
        .with(Dropout::new(0.25, g))
        .with(Linear::new(WIDTH, 1, g, d))
}

fn fit(net: &Net, (x, y): &Pair) -> Result<Measured<B>> {
    Ok(Measured { loss: (net.forward(x) - y).square().mean(), samples: 1, metrics: vec![] })
}

fn state(net: &Net, o: &dyn Optimizer<B>) -> String {
    let randoms: Vec<_> = net.leaves().randoms.iter().map(|(_, r)| r.state()).collect();
    format!("{:?} {:?} {randoms:?}", net.state_dict().unwrap(), o.state_dict(net).unwrap())
}

#[test]
fn nothing_is_lost_without_memory() {
    let d = CpuDevice::default();
    let g = &mut Generator::new(5);
    let pair: Pair = (g.randn([64, WIDTH], &d), g.randn([64, 1], &d));
    let (a, b, mut p, mut q) = (net(&d), net(&d), Adam::new(0.01), Adam::new(0.01));
    let mut plain = TrainStep::new(&a, fit);
    let mut captured = TrainStep::new(&b, fit).capture();
    let mut failures = 0;
    for _ in 0..2 {
        let before = state(&b, &q);
        for more in (0..).map(|i| i * STEP_BYTES) {
            Cpu::release_memory(&d).unwrap();
            Cpu::set_memory_limit(&d, Some(Cpu::memory_stats(&d).unwrap().in_use + more)).unwrap();
            let result = captured.run(&mut q, std::slice::from_ref(&pair));
            Cpu::set_memory_limit(&d, None).unwrap();
            let Err(e) = result else { break };
            assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
            assert!(state(&b, &q) == before, "{more} bytes");
            failures += 1;
        }
        plain.run(&mut p, std::slice::from_ref(&pair)).unwrap();
        assert!(state(&a, &p) == state(&b, &q));
    }
    assert!(failures > 2, "{failures}");
}
