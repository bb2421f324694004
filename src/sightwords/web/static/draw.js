// Draws the photo, or the heat map of a word over the photo in grey.

const LONGER_SIDE_PX = 1024;

export function draw(canvas, photo, word, settings) {
  const [width, height] = fit(photo.answer.detail.size_px);
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d");
  // Transparent photos get a white background, as on the server. Grey: this browser cannot show it.
  pen.fillStyle = photo.bitmap ? "#fff" : "#888";
  pen.fillRect(0, 0, width, height);
  if (photo.bitmap) pen.drawImage(photo.bitmap, 0, 0, width, height);
  if (!word || !word.map) return;
  pen.globalCompositeOperation = "saturation";
  pen.fillStyle = "#808080";
  pen.fillRect(0, 0, width, height);
  pen.globalCompositeOperation = "source-over";
  pen.globalAlpha = settings.strength;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(heat(word.map, photo.answer.detail.map_size_px, settings.colours), 0, 0, width, height);
  pen.globalAlpha = 1;
  if (word.box) outline(pen, word.box, width, height);
}

// Decoded at the size it is drawn: a phone photo at full size takes 50 MB.
export async function shrunk(file) {
  const whole = await createImageBitmap(file, { imageOrientation: "from-image" });
  if (Math.max(whole.width, whole.height) <= LONGER_SIDE_PX) return whole;
  const [resizeWidth, resizeHeight] = fit([whole.width, whole.height]);
  const small = await createImageBitmap(whole, { resizeWidth, resizeHeight, resizeQuality: "high" });
  whole.close();
  return small;
}

export function drawScale(canvas, colours) {
  const pen = canvas.getContext("2d");
  const pixels = pen.createImageData(colours.length, 1);
  colours.forEach((colour, i) => pixels.data.set([...colour, 255], 4 * i));
  pen.putImageData(pixels, 0, 0);
}

function fit([width, height]) {
  const share = LONGER_SIDE_PX / Math.max(width, height);
  return [Math.max(1, Math.round(width * share)), Math.max(1, Math.round(height * share))];
}

function heat(base64, [width, height], colours) {
  const levels = atob(base64);
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  const pen = small.getContext("2d");
  const pixels = pen.createImageData(width, height);
  for (let i = 0; i < levels.length; i++) {
    pixels.data.set(colours[levels.charCodeAt(i)], 4 * i);
    pixels.data[4 * i + 3] = 255;
  }
  pen.putImageData(pixels, 0, 0);
  return small;
}

function outline(pen, [x0, y0, x1, y1], width, height) {
  // White inside black: visible on any background.
  for (const [line, colour] of [[6, "black"], [2.5, "white"]]) {
    pen.lineWidth = line;
    pen.strokeStyle = colour;
    pen.strokeRect(x0 * width + 3, y0 * height + 3, (x1 - x0) * width - 6, (y1 - y0) * height - 6);
  }
}
