//! Pictures of the wave: Ez in a plane across the last axis, as PNG files.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::transport::Done;

/// Where pictures go, and what is bright in them.
#[derive(Clone, Debug)]
pub struct Album {
    folder: PathBuf,
    brightest: f64,
}

impl Album {
    /// Makes the folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: &Path, brightest: f64) -> Done<Album> {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("make the folder {} for pictures: {e}", folder.display()))?;
        Ok(Album { folder: folder.into(), brightest })
    }

    /// Writes the picture of one step: rows of `width` values as bytes in the machine's order.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&self, step: u64, width: usize, values: &[u8]) -> Done {
        let path = self.folder.join(format!("ez-{step:06}.png"));
        let values = values.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes));
        let pixels: Vec<u8> = values.flat_map(|value| colour(value / self.brightest)).collect();
        let height = pixels.len() / 3 / width;
        let write = || -> Done {
            let file = BufWriter::new(File::create(&path)?);
            let mut picture = png::Encoder::new(file, width as u32, height as u32);
            picture.set_color(png::ColorType::Rgb);
            picture.set_depth(png::BitDepth::Eight);
            Ok(picture.write_header()?.write_image_data(&pixels)?)
        };
        write().map_err(|e| format!("write the picture {}: {e}", path.display()).into())
    }
}

/// From -1, blue, over 0, white, to 1, red.
fn colour(value: f64) -> [u8; 3] {
    let pale = (255.0 * (1.0 - value.abs().min(1.0))).round() as u8;
    if value < 0.0 { [pale, pale, 255] } else { [255, pale, pale] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_can_be_read_again() {
        let folder = std::env::temp_dir().join(format!("weft-fdtd-{}", std::process::id()));
        let album = Album::open(&folder, 2.0).unwrap();
        let values = [0.0f64, 2.0, -2.0, 1.0, 9.0, 0.0].map(f64::to_ne_bytes).concat();
        album.add(7, 3, &values).unwrap();
        let file = std::io::BufReader::new(File::open(folder.join("ez-000007.png")).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((info.width, info.height), (3, 2));
        let half = [255, 128, 128];
        let white = [255; 3];
        assert_eq!(pixels, [white, [255, 0, 0], [0, 0, 255], half, [255, 0, 0], white].concat());
    }
}
