// showOpenFilePicker, showDirectoryPicker and showSaveFilePicker, whose windows a headless browser does not show.
//
// What is chosen comes by an ordinary file input, whose chooser the env draws, and the name to save under by a prompt.
// The handles are real ones of copies in the private file system of the origin; what is written into these is
// downloaded when the stream is closed.
(() => {
  if (!window.showOpenFilePicker || !navigator.storage?.getDirectory) return;
  const FOLDER = "k25-files", MAX_FILES = 2000;
  const { createWritable } = FileSystemFileHandle.prototype, { getDirectory } = StorageManager.prototype;
  const createElement = Document.prototype.createElement.bind(document), ask = window.prompt.bind(window);
  const click = HTMLElement.prototype.click, later = setTimeout.bind(window);
  const { isActive } = window[Symbol.for("k25")];
  const open = new Set(); // inputs that wait for an answer, so that they are not collected
  const root = () => getDirectory.call(navigator.storage);
  const aborted = () => new DOMException("The user aborted a request.", "AbortError");

  const check = () => {
    let problem = isActive() ? null : "Must be handling a user gesture to show a file picker.";
    try { top.location.href; } catch { problem = "Cross origin sub frames aren't allowed to show a file picker."; }
    if (problem) throw new DOMException(problem, "SecurityError");
  };
  const makeFolder = async () => {
    const all = await (await root()).getDirectoryHandle(FOLDER, { create: true });
    return all.getDirectoryHandle(crypto.randomUUID(), { create: true });
  };
  const keep = async (folder, file) => {
    const handle = await folder.getFileHandle(file.name, { create: true });
    const stream = await createWritable.call(handle);
    await stream.write(file);
    await stream.close();
    return handle;
  };
  const pick = (settings) => new Promise((resolve, reject) => {
    const field = Object.assign(createElement("input"), { type: "file", ...settings });
    const end = (answer) => { open.delete(field); answer(); };
    field.addEventListener("change", () => end(() => resolve([...field.files].slice(0, MAX_FILES))));
    field.addEventListener("cancel", () => end(() => reject(aborted())));
    open.add(field);
    window[Symbol.for("k25")].choose();
    click.call(field);
  });
  const accepted = (types) =>
    [...(types ?? [])].flatMap(({ accept }) => Object.entries(accept ?? {})).flatMap(([type, endings]) => [type, endings].flat()).join();

  const download = async (handle) => {
    const file = await handle.getFile();
    const url = URL.createObjectURL(new Blob([await file.arrayBuffer()]));
    click.call(Object.assign(createElement("a"), { href: url, download: file.name }));
    later(() => URL.revokeObjectURL(url), 60_000);
  };
  class SavedStream extends WritableStream { // has the methods of FileSystemWritableFileStream
    constructor(stream, handle) {
      super({
        write: (chunk) => stream.write(chunk),
        close: async () => { await stream.close(); await download(handle); },
        abort: (reason) => stream.abort(reason),
      });
    }
    async write(chunk) {
      const writer = this.getWriter(), written = writer.write(chunk);
      writer.releaseLock();
      await written;
    }
    seek(position) { return this.write({ type: "seek", position }); }
    truncate(size) { return this.write({ type: "truncate", size }); }
  }

  const replace = (owner, methods) => {
    for (const [name, value] of Object.entries(methods)) Object.defineProperty(owner, name, { value, writable: true, configurable: true });
  };
  replace(FileSystemFileHandle.prototype, {
    async createWritable(options) {
      const stream = await createWritable.call(this, options);
      const path = await (await root()).resolve(this);
      return path?.[0] === FOLDER ? new SavedStream(stream, this) : stream;
    },
  });
  replace(window, {
    async showOpenFilePicker(options) {
      check();
      const files = await pick({ multiple: Boolean(options?.multiple), accept: accepted(options?.types) });
      const folder = await makeFolder();
      return Promise.all(files.map((file) => keep(folder, file)));
    },
    async showDirectoryPicker() {
      check();
      const files = await pick({ webkitdirectory: true });
      const folder = await makeFolder();
      const top = await folder.getDirectoryHandle(files[0]?.webkitRelativePath.split("/")[0] || "folder", { create: true });
      for (const file of files) {
        let place = top;
        for (const name of file.webkitRelativePath.split("/").slice(1, -1)) place = await place.getDirectoryHandle(name, { create: true });
        await keep(place, file);
      }
      return top;
    },
    async showSaveFilePicker(options) {
      check();
      const suggested = options?.suggestedName ?? "";
      const name = ask("Save file as:", suggested);
      if (name === null) throw aborted();
      const last = name.split(/[\\/]/).at(-1).trim() || suggested || "Untitled";
      return (await makeFolder()).getFileHandle(last, { create: true });
    },
  });
})();
