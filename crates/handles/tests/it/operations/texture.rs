//! Textures and surfaces.

use super::memory::{foreign, per_thread};
use cuhold_driver_sys::ffi::CUresourceViewFormat;
use cuhold_handles::{
    AnyArray, Array, ArrayDesc, ArrayFormat, Surface, Texture, TextureOptions, TextureSource,
    TextureView,
};
use cuhold_testkit::Run;
use std::sync::Arc;

fn array(run: &Run<'_>) -> Arc<Array> {
    let desc = ArrayDesc::flat(16, 8, ArrayFormat::F32, 1).unwrap().surface();
    Arc::new(Array::new(run.context(), &desc).unwrap())
}

fn source(run: &Run<'_>) -> TextureSource {
    (&array(run)).into()
}

fn any(run: &Run<'_>) -> AnyArray {
    (&array(run)).into()
}

fn view() -> TextureView {
    TextureView {
        format: CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32,
        size: [16, 8, 0],
        levels: 0..1,
        layers: 0..1,
    }
}

fn texture(run: &Run<'_>) -> Texture {
    Texture::with_view(&source(run), &TextureOptions::default(), &view()).unwrap()
}

fn surface(run: &Run<'_>) -> Surface {
    Surface::new(&any(run)).unwrap()
}

cuhold_testkit::enrol! {
    Texture::new |run| {
        let source = source(run);
        run.create(|| Texture::new(&source, &TextureOptions::default()));
    }

    Texture::with_view |run| {
        let source = source(run);
        run.create(|| Texture::with_view(&source, &TextureOptions::default(), &view()));
    }

    Texture::resource_desc |run| {
        let texture = texture(run);
        run.repeat(|| texture.resource_desc());
    }

    Texture::texture_desc |run| {
        let texture = texture(run);
        run.repeat(|| texture.texture_desc());
    }

    Texture::view_desc |run| {
        let texture = texture(run);
        run.repeat(|| texture.view_desc());
    }

    Texture::used_on |run| {
        let (texture, stream) = (texture(run), per_thread(run));
        run.repeat(|| texture.used_on(&stream));
    }

    Texture::close |run| {
        let texture = texture(run);
        let stream = foreign(run);
        texture.used_on(&stream).unwrap();
        let kept = texture.source().clone();
        drop(run.keep_or(run.op(|| texture.close())));
        drop(kept);
    }

    Texture::drop |run| {
        let array = array(run);
        let texture = Texture::new(&(&array).into(), &TextureOptions::default()).unwrap();
        let stream = foreign(run);
        texture.used_on(&stream).unwrap();
        run.op(|| drop(texture));
    }

    Surface::new |run| {
        let array = any(run);
        run.create(|| Surface::new(&array));
    }

    Surface::resource_desc |run| {
        let surface = surface(run);
        run.repeat(|| surface.resource_desc());
    }

    Surface::used_on |run| {
        let (surface, stream) = (surface(run), per_thread(run));
        run.repeat(|| surface.used_on(&stream));
    }

    Surface::close |run| {
        let surface = surface(run);
        let stream = foreign(run);
        surface.used_on(&stream).unwrap();
        let kept = surface.array().clone();
        drop(run.keep_or(run.op(|| surface.close())));
        drop(kept);
    }

    Surface::drop |run| {
        let array = any(run);
        let surface = Surface::new(&array).unwrap();
        let stream = foreign(run);
        surface.used_on(&stream).unwrap();
        run.op(|| drop(surface));
    }
}
