// Short items of a line: one column for each pixel, as high as the part of the pixel that they take.

/** Steps of the height of a pixel. Those beside each other that differ by one are drawn as one. */
const STEPS = 6;
/** More runs of pixels on a line are painted into a picture first, where one costs far less. */
const FEW_RUNS = 100;
/** Items of which the sum of lengths is remembered as one. */
const SUMMED = 16;

/** The lengths of all items before each `SUMMED` of them. */
const lengthsBefore = remembered(() => {
  const { start, end, count } = run;
  const sums = new Float64Array(Math.ceil(count / SUMMED) + 1);
  let sum = 0;
  for (let item = 0; item < count; item++) {
    if (item % SUMMED === 0) sums[item / SUMMED] = sum;
    sum += end[item] - start[item];
  }
  return sums;
});

/** The sum of the lengths of some items of a line. */
function lengthOfAll(ids, first, last) {
  const { start, end } = run;
  let sum = 0;
  if (ids) {
    for (let index = first; index < last; index++) sum += end[ids[index]] - start[ids[index]];
    return sum;
  }
  let index = first;
  if (last - first > 2 * SUMMED) {
    const [from, to] = [Math.ceil(first / SUMMED), Math.floor(last / SUMMED)];
    for (; index < from * SUMMED; index++) sum += end[index] - start[index];
    sum += lengthsBefore()[to] - lengthsBefore()[from];
    index = to * SUMMED;
  }
  for (; index < last; index++) sum += end[index] - start[index];
  return sum;
}

/** A colour of a strength as the bytes of a point of a picture, for each colour. */
const pointsOf = remembered((color) => {
  const isHex = color.startsWith('#');
  const parts = isHex ? color.match(/[\da-f]{2}/g).map((part) => parseInt(part, 16)) : color.match(/\d+/g);
  return remembered((strength) => {
    const bytes = Uint8Array.of(...parts.slice(0, 3), Math.round(255 * strength));
    return new Uint32Array(bytes.buffer)[0];
  });
});

/** The runs of pixels of a line, from left to right: `from` and `to`, colour, strength and height of each. */
const pixels = {
  count: 0,
  from: [],
  to: [],
  color: [],
  strength: [],
  high: [],
  height: 0,
  picture: document.createElement('canvas').getContext('2d', { willReadFrequently: true }),
  image: null,

  begin(height) {
    this.count = 0;
    this.height = height;
  },

  /** `part` of a pixel is taken. A pixel that is like the one before it continues its run. */
  add(pixel, color, strength, part) {
    const { height } = this;
    const steps = Math.min(STEPS, height);
    const high = Math.max(1, (Math.ceil(part * steps) * height) / steps);
    const last = this.count - 1;
    const isAlike = last >= 0 && this.to[last] === pixel && this.color[last] === color;
    const alike = height > 3 ? height / steps : 0;
    if (isAlike && this.strength[last] === strength && Math.abs(this.high[last] - high) <= alike) {
      this.to[last] = pixel + 1;
      return;
    }
    const next = this.count++;
    this.from[next] = pixel;
    this.to[next] = pixel + 1;
    this.color[next] = color;
    this.strength[next] = strength;
    this.high[next] = high;
  },

  draw(context, y) {
    if (this.count > FEW_RUNS) return this.paint(context, y);
    for (let run = 0; run < this.count; run++) {
      context.globalAlpha = this.strength[run];
      context.fillStyle = this.color[run];
      context.fillRect(this.from[run], y + this.height - this.high[run], this.to[run] - this.from[run], this.high[run]);
    }
  },

  /** The same by a picture of as many points as the screen has there. */
  paint(context, y) {
    const { gutter, width } = timeline;
    const ratio = timeline.canvas.height / timeline.height;
    const [across, down] = [width - gutter, this.height].map((side) => Math.max(1, Math.round(side * ratio)));
    if (this.image?.width !== across || this.image.height !== down) {
      this.picture.canvas.width = Math.max(across, this.picture.canvas.width);
      this.picture.canvas.height = Math.max(down, this.picture.canvas.height);
      this.image = new ImageData(across, down);
    }
    const points = new Uint32Array(this.image.data.buffer).fill(0);
    for (let run = 0; run < this.count; run++) {
      const point = pointsOf(this.color[run])(this.strength[run]);
      const left = Math.max(0, Math.round((this.from[run] - gutter) * ratio));
      const right = Math.min(across, Math.round((this.to[run] - gutter) * ratio));
      const top = Math.max(0, Math.round((this.height - this.high[run]) * ratio));
      for (let begin = top * across; begin < points.length; begin += across)
        for (let index = begin + left; index < begin + right; index++) points[index] = point;
    }
    this.picture.putImageData(this.image, 0, 0);
    context.globalAlpha = 1;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture.canvas, 0, 0, across, down, gutter, y, width - gutter, this.height);
  },
};
