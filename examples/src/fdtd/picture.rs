//! Pictures of the wave: Ez in a plane across the last axis, as PNG files.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::transport::Done;

/// So wide a picture is, about: small grids have squares of pixels for cells.
const PIXELS: usize = 480;

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
        let cells: Vec<[u8; 3]> = values.map(|value| colour(value / self.brightest)).collect();
        let scale = (PIXELS / width.max(1)).max(1);
        let wide = |row: &[[u8; 3]]| -> Vec<u8> {
            row.iter().flat_map(|cell| cell.repeat(scale)).collect()
        };
        let pixels: Vec<u8> =
            cells.chunks(width.max(1)).flat_map(|row| wide(row).repeat(scale)).collect();
        let (width, height) = (width * scale, cells.len() / width.max(1) * scale);
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
        assert_eq!((info.width, info.height), (480, 320));
        let (red, blue, half, white) = ([255, 0, 0], [0, 0, 255], [255, 128, 128], [255; 3]);
        for (cell, wanted) in [white, red, blue, half, red, white].iter().enumerate() {
            for (x, y) in [(0, 0), (159, 159), (80, 1)] {
                let at = 3 * ((cell / 3 * 160 + y) * 480 + cell % 3 * 160 + x);
                assert_eq!(pixels[at..at + 3], *wanted, "cell {cell}, at {x}, {y}");
            }
        }
    }
}
