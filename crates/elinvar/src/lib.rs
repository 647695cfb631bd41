//! Tensors, exact gradients and neural networks that give **the same bits on every device**.
//!
//! This page goes from a first tensor to a trained network. Every example on it is run as a test.
//!
//! # Tensors
//!
//! A [`Tensor`] has a shape, a dtype and a device. Methods have PyTorch's and NumPy's names.
//!
//! ```
//! use elinvar::prelude::*;
//!
//! let d = Device::default();
//! let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &d);
//! assert_eq!(x.dims(), [2, 3]);
//! assert_eq!(x.dtype(), DType::F32);
//!
//! let y = (&x * 2.0 + 1.0).sqrt();
//! println!("{y}");
//! // [[1.7320508 2.236068  2.6457512]
//! //  [3.        3.3166249 3.6055512]]
//!
//! let z = x.matmul(&x.t());
//! assert_eq!(z.to_vec::<f32>()?, [14.0, 32.0, 32.0, 77.0]);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Shapes broadcast as in NumPy, and reductions take axes:
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &d);
//! let centred = &x - x.mean_dim(0, true);
//! assert_eq!(centred.to_vec::<f32>()?, [-1.5, -1.5, -1.5, 1.5, 1.5, 1.5]);
//! assert_eq!(x.sum().item(), 21.0);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Slicing takes ranges, steps, places from the end, index tensors and masks; ranges and places make views:
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let x = Tensor::arange(0, 12, 1, &d).reshape(&[3, 4]);
//! assert_eq!(x.i((-1, 1..3)).to_vec::<i64>()?, [9, 10]);
//! assert_eq!(x.i((.., step(.., -2))).i(0).to_vec::<i64>()?, [3, 1]);
//! assert_eq!(x.i(&x.gt(9)).to_vec::<i64>()?, [10, 11]);
//! let rows = Tensor::new([2i64, 0], &d);
//! assert_eq!(x.i((&rows, 0)).to_vec::<i64>()?, [8, 0]);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Random numbers come from a [`Generator`]: the same seed gives the same tensor on every device.
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let (mut a, mut b) = (Generator::new(7), Generator::new(7));
//! let (x, y): (Tensor, Tensor) = (a.randn([2, 2], &d), b.randn([2, 2], &d));
//! assert_eq!(x.to_vec::<f32>()?, y.to_vec::<f32>()?);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! # Mistakes
//!
//! A programmer's mistake panics with a sentence and the line that made it, as indexing does in std. Where a program
//! must go on, [`try_run`] gives the error back. What comes from outside (files, devices) is always a `Result`.
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let (x, w) = (Tensor::zeros([4, 3, 8], DType::F32, &d), Tensor::zeros([4, 7, 5], DType::F32, &d));
//! let e = try_run(|| x.matmul(&w)).unwrap_err();
//! assert_eq!(e.kind(), ErrorKind::ShapeMismatch);
//! assert_eq!(
//!     e.to_string(),
//!     "matmul: inner sizes differ: left [4, 3, 8], right [4, 7, 5]; 8 and 7 must be equal"
//! );
//! ```
//!
//! # Gradients
//!
//! [`requires_grad`](Tensor::requires_grad) makes a variable; what is computed from it remembers how.
//! [`backward`](Tensor::backward) walks back and returns [`Gradients`] by variable.
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let x = Tensor::new([1.0f64, 2.0, 3.0], &d).requires_grad();
//! let y = (&x * &x).sum();
//! let g = y.backward();
//! assert_eq!(g.get(&x).unwrap().to_vec::<f64>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Gradients are tensors that can be differentiated again ([`grad`](Tensor::grad)), to any order. [`no_grad`] stops
//! recording in a scope, [`detach`](Tensor::detach) cuts one value off, [`checkpoint`] trades time for memory, and
//! [`check_gradient`] compares any function's gradients with differences:
//!
//! ```
//! # use elinvar::prelude::*;
//! # let d = Device::default();
//! let x = Tensor::new([0.5f64], &d).requires_grad();
//! let first = x.sin().sum().grad(&[&x])[0].clone().unwrap();
//! let second = first.sum().grad(&[&x])[0].clone().unwrap();
//! assert_eq!(second.item(), -(0.5f64).sin());
//!
//! check_gradient(|x| Ok(x[0].tanh()), &[x.detach()], 1e-5, 1e-8)?;
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! # A network that learns
//!
//! A network is a struct of layers. `#[derive(Module)]` finds the parameters in it, under the names that PyTorch gives
//! them (`fc1.weight`, ...); [`Layer`](nn::Layer) says how a tensor goes through. The optimiser takes the gradients
//! and gives every parameter its next value.
//!
//! ```
//! use elinvar::nn::layers::Linear;
//! use elinvar::nn::loader::Loader;
//! use elinvar::nn::loss::CrossEntropy;
//! use elinvar::nn::optim::{Adam, Optimizer};
//! use elinvar::nn::{Layer, Module, data, models, train};
//! use elinvar::prelude::*;
//! use std::sync::Arc;
//!
//! #[derive(Module)]
//! struct Reader<B: Backend> {
//!     fc1: Linear<B>,
//!     fc2: Linear<B>,
//! }
//!
//! impl<B: Backend> Layer<B> for Reader<B> {
//!     fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
//!         self.fc2.forward(&self.fc1.forward(&x.flatten(1, -1)).relu())
//!     }
//! }
//!
//! let d = Device::default();
//! let mut rng = Generator::new(1);
//! let net: Reader<Any> =
//!     Reader { fc1: Linear::new(64, 32, &mut rng, &d), fc2: Linear::new(32, 10, &mut rng, &d) };
//! assert_eq!(net.num_parameters(), 64 * 32 + 32 + 32 * 10 + 10);
//!
//! // 1,797 handwritten digits come with the library: 80 % to learn from, 20 % to be tested on.
//! let (learn, test) = data::digits()?.split(0, 0.2)?;
//! let learn = Arc::new(models::digit_pairs(&learn)?);
//! let loader = Loader::new(learn, 32)?.shuffle(7);
//! let mut adam = Adam::new(3e-3);
//! for epoch in 0..4 {
//!     for batch in loader.epoch(epoch, 0, &d) {
//!         let batch = batch?;
//!         let loss = CrossEntropy::new().of(&net.forward(&batch.x), &batch.y);
//!         adam.step(&net, &loss.backward())?;
//!     }
//! }
//! let score = train::evaluate(&net, &models::digit_pairs(&test)?, 64, &d)?;
//! assert!(score.accuracy().unwrap() > 0.9);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Run it twice, on any device: the accuracy and the weights are the same to the last bit.
//!
//! # Longer runs
//!
//! [`Trainer`](nn::train::Trainer) is that loop with what a longer run needs: a schedule, clipping, gradients added up over
//! batches, averaged weights, validation, early stopping, and checkpoints. A run that was stopped, at any moment, goes
//! on from its last checkpoint to the bits of a run that was never stopped.
//!
//! ```
//! use elinvar::nn::loader::Loader;
//! use elinvar::nn::models::{DigitsMlp, digit_pairs};
//! use elinvar::nn::optim::AdamW;
//! use elinvar::nn::optim::schedule::{CosineAnnealingLr, Warmup};
//! use elinvar::nn::train::{Checkpoint, Checkpoints, Classification, Trainer};
//! use elinvar::nn::{Module, data};
//! use elinvar::prelude::*;
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! # let dir = std::env::temp_dir().join(format!("elinvar-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let d = Device::default();
//! let (learn, _) = data::digits()?.split(0, 0.2)?;
//! let loader = Loader::new(Arc::new(digit_pairs(&learn)?), 128)?.shuffle(0);
//! let path = dir.join("checkpoint.safetensors");
//!
//! // Trains for an epoch of 12 steps, or until the step `stop`.
//! let run = |stop: u64, seed: u64| -> Result<String, Error> {
//!     let net = DigitsMlp::<Any>::new(&mut Generator::new(seed), &d);
//!     let mut adam = AdamW::new(3e-3);
//!     struct Stop(u64);
//!     impl elinvar::nn::train::Callback<Any> for Stop {
//!         fn step(&mut self, s: &elinvar::nn::train::Step<'_, Any>) -> Result<ControlFlow<()>, Error> {
//!             Ok(if s.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
//!         }
//!     }
//!     let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new())
//!         .epochs(1)
//!         .schedule(Warmup::new(2, CosineAnnealingLr::new(10)?))
//!         .clip_grad_norm(1.0)
//!         .callback(Stop(stop))
//!         .checkpoints(Checkpoints::new(&path).every_steps(1));
//!     if path.exists() {
//!         trainer = trainer.resume(Checkpoint::load(&path)?);
//!     }
//!     trainer.run(&d)?;
//!     Ok(elinvar::io::weights_hash(&net.state_dict()?))
//! };
//! let whole = run(u64::MAX, 1)?;
//! std::fs::remove_file(&path)?;
//! run(5, 1)?;
//! assert_eq!(run(u64::MAX, 99)?, whole, "everything comes from the checkpoint, the weights too");
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! # Weights from elsewhere
//!
//! Names and layouts are PyTorch's, so a state dict in a safetensors file loads by name
//! ([`load_state_dict`](nn::Module::load_state_dict)); [`models`](nn::models) has GPT-2, Llama and BERT, which read the
//! directories of Hugging Face (`config.json`, `model.safetensors`), ResNet with torchvision's names, and more.
//!
//! ```
//! use elinvar::nn::generate::{Limits, Sampler, generate};
//! use elinvar::nn::models::{Gpt2, Gpt2Config};
//! use elinvar::prelude::*;
//! use std::ops::ControlFlow;
//!
//! let d = Device::default();
//! // Two blocks of four heads, 32 features, 16 positions, 256 tokens; `Gpt2::from_pretrained("dir", &d)` reads one.
//! let net = Gpt2::<Any>::new(Gpt2Config::new(2, 4, 32, 16, 256), &mut Generator::new(0), &d)?;
//! let limits = Limits { max_new_tokens: 8, stop: vec![] };
//! let mut sampler = Sampler::new(7).temperature(0.8).top_p(0.9);
//! let tokens = generate(&net, &[72, 101], &limits, &mut sampler, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(tokens.len(), 8);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! # Devices
//!
//! [`Device::parse`] turns a name (`cpu`, `cuda:0`, `vulkan:0`, `reference`) into a device, [`devices`] lists what there is, and
//! [`machine`] also says why there is not more. [`Device::default`] is the processor; [`Device::best`] is a GPU with memory of its
//! own, if there is one that gives the same bits. `Tensor` alone is `Tensor<Any>`: the
//! backend is chosen at run time, by the device. `Tensor<Cpu>` and `Tensor<Reference>` are the same code with the backend
//! resolved at compile time, and a backend of your own works the same way: implement [`Backend`].
//!
//! ```
//! # use elinvar::prelude::*;
//! let d = Device::parse("cpu")?;
//! let x = Tensor::new([1.0f32, 2.0], &d);
//! let fixed: elinvar::Tensor<Reference> = x.copy_to(&ReferenceDevice)?;
//! assert_eq!(fixed.exp().to_vec::<f32>()?, x.exp().to_vec::<f32>()?);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! On a GPU, a small model's forward pass is a hundred launches of a few microseconds, and giving them to the device takes longer
//! than doing them. [`Graph`] records them once and gives them as one; results are the same bits, on every device:
//!
//! ```
//! # use elinvar::prelude::*;
//! use elinvar::Graph;
//! use elinvar::nn::models::DigitsMlp;
//! use elinvar::nn::{Layer, Module};
//!
//! # let d = Device::default();
//! let net = DigitsMlp::<Any>::new(&mut Generator::new(1), &d);
//! net.eval();
//! let x = Tensor::zeros([1, 1, 8, 8], DType::F32, &d);
//! let graph = Graph::record(&[&x], move |x| Ok(vec![net.forward(&x[0])]))?;
//! let digit = graph.run(&[&Tensor::ones([1, 1, 8, 8], DType::F32, &d)])?;
//! assert_eq!(digit[0].dims(), [1, 10]);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! A device counts the memory of its tensors and keeps what was dropped for the next ones; a limit turns a program that would
//! take the whole machine into one that gets an error it can handle.
//!
//! ```standalone_crate
//! # use elinvar::prelude::*;
//! let d = Device::cpu();
//! d.set_memory_limit(Some(d.memory_stats()?.in_use + (1 << 20)))?;
//! let large = try_run(|| Tensor::zeros([1 << 20], DType::F32, &d));
//! d.set_memory_limit(None)?;
//! assert_eq!(large.unwrap_err().kind(), ErrorKind::OutOfMemory);
//! println!("{}", d.memory_stats()?);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! For inference, a model may keep its weights twice: as they are, and in the order in which products read them. That takes
//! memory and no bit of any result. What does change bits is asked for by name: inside of the scope of [`Precision::Fast`] a
//! device may take its fastest units for products, and what it makes of them is the same every time, but not on every device.
//!
//! ```
//! # use elinvar::prelude::*;
//! # use elinvar::nn::{Layer, Module, layers::Linear};
//! let (d, g) = (Device::cpu(), &mut Generator::new(1));
//! let layer = Linear::new(64, 32, g, &d);
//! let x = g.randn([2, 64], &d);
//! let y = layer.forward(&x);
//! println!("{} weights are packed", layer.prepack()?);
//! assert_eq!(layer.forward(&x).to_vec::<f32>()?, y.to_vec::<f32>()?);
//! layer.to_dtype(DType::BF16)?;
//! let fast = Precision::Fast.scope(|| layer.forward(&x.to_dtype(DType::BF16)));
//! # assert_eq!(fast.dims(), [2, 32]);
//! # Ok::<(), elinvar::Error>(())
//! ```
//!
//! Without gradients, generic code can be written on arrays through the typed door, where every op is a function of
//! the backend that returns a `Result`:
//!
//! ```
//! use elinvar::{Array, Backend, Door, Result};
//!
//! fn norm<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
//!     B::sqrt(&B::sum(&B::mul(x, x)?, None, false)?)
//! }
//! # use elinvar::prelude::*;
//! # let x = Array::<Reference>::from_vec(&ReferenceDevice, vec![3.0f32, 4.0], &[2])?;
//! assert_eq!(norm(&x)?.to_host()?.as_slice::<f32>()?, [5.0]);
//! # Ok::<(), elinvar::Error>(())
//! ```

pub use elinvar_core as core;
pub use elinvar_core::{
    DType, Element, Error, ErrorKind, HostData, HostTensor, HostVec, MemoryStats, Precision, Result, Scalar,
    Shape, bf16, f16,
};
pub use elinvar_cpu as cpu;
pub use elinvar_cpu::{Cpu, CpuDevice};
pub use elinvar_devices as device;
pub use elinvar_devices::{Any, Device, DeviceInfo, Exactness, Machine, devices, machine};
pub use elinvar_io as io;
pub use elinvar_ops as ops;
pub use elinvar_ops::{Array, Backend, DeviceOf, Door, Value};
pub use elinvar_reference::{Reference, ReferenceDevice};
pub use elinvar_tensor::{
    Axes, Backward, Generator, Gradients, Graph, HookHandle, Index, Operand, Sizes, TensorData, backward,
    check_gradient, checkpoint, enable_grad, is_grad_enabled, no_grad, numerical_gradient, step, try_run,
};

/// Networks: modules and layers, losses, optimisers, data, a training loop. All of the crate `elinvar-nn`.
pub mod nn {
    // The trait comes with everything else; the derive macro must name this crate, not one its user does not have.
    pub use elinvar_derive::FaceModule as Module;
    pub use elinvar_nn::*;
}

/// A tensor; its backend is chosen at run time by the device, unless it is named.
pub type Tensor<B = Any> = elinvar_tensor::Tensor<B>;

/// What most programs need: `use elinvar::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Any, Backend, Backward, Cpu, CpuDevice, DType, Device, Error, ErrorKind, Generator, Gradients, Index,
        Precision, Reference, ReferenceDevice, Scalar, Tensor, backward, check_gradient, checkpoint, devices,
        no_grad, step, try_run,
    };
}
