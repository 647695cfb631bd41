//! What is given to a device's queue: few launches, and only reads wait.

use elinvar_driver::null::Call;
use elinvar_driver::{Driver, Null};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::Layer;
use elinvar_nn::loss::cross_entropy;
use elinvar_nn::models::Mlp;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_tensor::{Generator, Tensor};

type B = Gpu<Null>;

#[test]
fn a_training_step_waits_for_nothing() {
    let d = GpuDevice::new(Null::open(0).unwrap(), 0);
    let model = Mlp::<B>::new(&[64, 128, 128, 10], &mut Generator::new(1), &d).unwrap();
    let mut adam = Adam::new(0.001);
    let mut step = || {
        let x = Tensor::<B>::from_vec(vec![0.5f32; 32 * 64], &[32, 64], &d);
        let labels = Tensor::<B>::from_vec((0..32).map(|i| i % 10).collect::<Vec<i64>>(), &[32], &d);
        let gradients = cross_entropy(&model.forward(&x), &labels).backward();
        adam.step(&model, &gradients).unwrap();
    };
    let driver = d.driver().unwrap();
    step();
    driver.take();
    step();
    let calls = driver.take();
    assert!(!calls.iter().any(Call::waits), "{calls:?}");
    // Kernels and memory of the step before serve again.
    let new = calls.iter().filter(|c| matches!(c, Call::Compile(_) | Call::Allocate(_))).count();
    assert_eq!(new, 0, "{calls:?}");
    let launches = calls.iter().filter(|c| matches!(c, Call::Launch(..))).count();
    let updates = calls.iter().filter(|c| matches!(c, Call::Launch(name, _) if name.starts_with("update")));
    assert_eq!(updates.count(), 1, "six parameters change in one launch");
    assert!(launches <= 28, "{launches}: {calls:#?}");
}
