function (limits) {
  // Texts of a document in lines, those in view first, and the forms that people fill in themselves.
  const start = performance.now(), lines = [[], [], []], sizes = [0, 0, 0]  // in view, out of view, hidden
  const styles = new Map(), grounds = new Map(), areas = []
  let numNodes = 0, isCut = false
  const styleOf = (element) => {
    let style = styles.get(element)
    if (!style) styles.set(element, style = getComputedStyle(element))
    return style
  }
  const parentOf = (node) => node.assignedSlot || node.parentNode && (node.parentNode.host || node.parentNode)
  const colourOf = (text) => {
    const parts = (text.match(/[\d.]+/g) || []).map(Number)
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 }
  }
  const groundOf = (element) => {  // the colour behind an element; null for an image
    if (!element || element.nodeType !== 1) return [255, 255, 255]
    if (grounds.has(element)) return grounds.get(element)
    const style = styleOf(element), { rgb, alpha } = colourOf(style.backgroundColor)
    const ground = style.backgroundImage !== "none" ? null : alpha > 0.5 ? rgb : groundOf(parentOf(element))
    grounds.set(element, ground)
    return ground
  }
  const opacities = new Map()
  const opacityOf = (element) => {
    if (!element || element.nodeType !== 1) return 1
    if (!opacities.has(element)) opacities.set(element, Number(styleOf(element).opacity) * opacityOf(parentOf(element)))
    return opacities.get(element)
  }
  const clips = new Map()
  const isClipped = (element) => {  // inside something without an extent that hides what overflows
    if (!element || element.nodeType !== 1 || element === document.body) return false
    if (!clips.has(element)) {
      const style = styleOf(element), own = style.overflow !== "visible" || style.clip !== "auto" || style.clipPath !== "none"
      const box = own && element.getBoundingClientRect()
      clips.set(element, own && (box.width <= 2 || box.height <= 2 || /inset\((?:50|100)%/.test(style.clipPath)
        || /rect\(0px,? 0px,? 0px,? 0px\)/.test(style.clip)) || isClipped(parentOf(element)))
    }
    return clips.get(element)
  }
  const kindOf = (element, box) => {  // which list; null for what is not drawn and not read aloud
    const style = styleOf(element)
    if (style.visibility !== "visible") return null
    const { rgb, alpha } = colourOf(style.color), ground = groundOf(element)
    const isFaint = ground && Math.max(...rgb.map((part, at) => Math.abs(part - ground[at]))) < 16
    const isOut = box.right + scrollX <= 0 || box.bottom + scrollY <= 0 || box.left > 20000
      || Math.abs(parseFloat(style.textIndent)) > 2000
    if (isFaint || alpha < 0.1 || parseFloat(style.fontSize) < 4 || isOut || opacityOf(element) < 0.1
        || box.width < 1 || box.height < 1 || isClipped(element)) return 2
    return box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth ? 0 : 1
  }
  let block = null
  const say = (kind, text, parent) => {
    if (sizes[kind] > limits.chars) { isCut = true; return }
    const list = lines[kind], cut = text.slice(0, limits.chars)
    sizes[kind] += cut.length + 1
    const last = list[list.length - 1]
    if (parent && last && last[0] === parent) last[1] += cut
    else list.push([parent, cut])
  }
  const blockOf = (element) => {
    while (element && element.nodeType === 1 && /^(inline|contents|ruby)/.test(styleOf(element).display)
           && !/^inline-(block|flex|grid|table)/.test(styleOf(element).display)) element = parentOf(element)
    return element
  }
  const range = document.createRange(), boxes = new Map()
  const readText = (node) => {
    const text = node.data, parent = parentOf(node)
    if (!/\S/.test(text) || !parent || parent.nodeType !== 1) {
      if (text && parent && parent.nodeType === 1) for (const kind of [0, 1, 2]) {
        const last = lines[kind][lines[kind].length - 1]
        if (last && last[0] === blockOf(parent)) last[1] += " "
      }
      return
    }
    let box = boxes.get(parent)
    if (!box) boxes.set(parent, box = parent.getBoundingClientRect())
    if (box.width < 1 || box.height < 1) {  // the text may overflow it
      range.selectNodeContents(node)
      box = range.getBoundingClientRect()
      if (!box.width && !box.height && !range.getClientRects().length) return  // not drawn
    }
    const kind = kindOf(parent, box)
    if (kind !== null) say(kind, text.replace(/\s+/g, " "), blockOf(parent))
  }
  const names = ["aria-label", "aria-description", "aria-roledescription", "alt", "title", "placeholder", "summary"]
  const readElement = (element) => {
    for (const name of names) {
      const text = element.getAttribute(name)
      if (text && /\S/.test(text)) say(name === "placeholder" && !element.value ? 0 : 2, text.replace(/\s+/g, " "))
    }
    if (/^(input|textarea)$/.test(element.localName) && element.type !== "password" && element.type !== "hidden" && element.value)
      say(0, String(element.value).replace(/[ \t]+/g, " "))
  }
  const readPseudos = (element) => {
    for (const pseudo of ["::before", "::after"]) {
      const content = getComputedStyle(element, pseudo).content
      if (content.length > 12 && content.startsWith('"')) say(0, content.slice(1, -1))
    }
  }

  const seen = (element) => {
    const box = element.getBoundingClientRect(), style = styleOf(element)
    return box.width >= 8 && box.height >= 8 && style.visibility === "visible" && opacityOf(element) > 0.1
      && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth
  }
  const nameOf = (field) => [field.name, field.id, field.autocomplete, field.placeholder, field.getAttribute("aria-label"),
    ...[...(field.labels || [])].map((label) => label.textContent)].filter(Boolean).join(" ").slice(0, 300).toLowerCase()
  const CODE = /one-time-code|\botp\b|one[ -]?time (?:code|pass)|\b2fa\b|\btotp\b|verification code|bestätigungscode|einmalcode/
  const CARD = /\bcc-(?:number|csc|exp|name)|card[ _-]?(?:number|no\b)|cardnumber|credit[ _-]?card|karten?nummer|kreditkarte|\bcv[cv]2?\b|\bcsc\b|security code|\biban\b|num[ée]ro de (?:la )?carte|n[úu]mero de (?:la )?tarjeta|numero (?:della )?carta|n[úu]mero do cart[ãa]o|номер карты|卡号|カード番号|카드 ?번호/
  const CAPTCHA = /recaptcha\/(?:api2|enterprise)\/(?:anchor|bframe)|hcaptcha\.com|challenges\.cloudflare\.com|friendlycaptcha|frcapi\.com|arkoselabs|funcaptcha|geetest/
  const PAY = /js\.stripe\.com\/v3\/(?:elements-inner|embedded|.*(?:card|payment))|checkout\.stripe\.com|paypal\.com\/(?:smart|sdk|checkout|webapps)|adyen\.com|braintree(?:gateway|-api)|checkoutshopper/
  const noteArea = (kind, element) => {
    const box = element.getBoundingClientRect()
    const inside = element.contains(document.activeElement) && document.activeElement !== document.body
    areas.push({ kind, origin: location.origin, box: [box.left, box.top, box.right, box.bottom], focus: inside && document.hasFocus() })
  }
  const noteField = (field) => {
    if (areas.length >= 20 || !seen(field)) return
    const name = nameOf(field)
    const passwords = [...(field.form?.elements || [])].filter((other) => other.type === "password").length
    const isNew = field.autocomplete === "new-password" || passwords > 1 // of a form that sets one
    const isLogin = field.type === "password" ? !isNew : CODE.test(name)
    const kind = CARD.test(name) ? "payment" : isLogin ? "login" : null
    if (kind === null) return
    const form = field.form && field.form.getBoundingClientRect().height < innerHeight * 1.5 ? field.form : field
    noteArea(kind, form)
  }
  const noteFrame = (frame) => {
    const src = frame.src || ""
    if (areas.length >= 20 || !(CAPTCHA.test(src) || PAY.test(src)) || /size=invisible/.test(src) || !seen(frame)) return
    noteArea(CAPTCHA.test(src) ? "captcha" : "payment", frame)
  }
  const widgets = ".g-recaptcha, .h-captcha, .cf-turnstile, .frc-captcha, [data-sitekey]"

  const elements = [], isLate = () => performance.now() - start > limits.ms
  const walk = (root, depth) => {
    const walker = document.createTreeWalker(root, 5, (node) => {
      if (node.nodeType === 3) return 1
      return /^(script|style|noscript|template)$/.test(node.localName) || styleOf(node).display === "none" ? 2 : 1
    })
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (++numNodes > limits.nodes || (numNodes % 100 === 0 && isLate())) { isCut = true; return }
      if (node.nodeType === 3) { readText(node); continue }
      elements.push(node)
      if (node.hasAttributes()) readElement(node)
      if (node.localName === "input") noteField(node)
      else if (node.localName === "iframe") noteFrame(node)
      else if (node.matches(widgets) && node.dataset.size !== "invisible" && areas.length < 20 && seen(node)) noteArea("captcha", node)
      if (node.shadowRoot && depth < 8) walk(node.shadowRoot, depth + 1)
    }
  }
  if (document.body) walk(document.body, 0)
  for (let at = 0; at < elements.length && !(at % 100 === 0 && isLate()); at++) readPseudos(elements[at])
  return { texts: lines.map((list) => list.map((entry) => entry[1]).join("\n")), areas, isCut }
}
