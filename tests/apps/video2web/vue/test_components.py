"""What repeats on a page becomes components and data; text and attributes of a page never become code."""

from apps.video2web.vue.components import Element, Loop, VueComponents, find_repeats, prop_name


def tag(name: str, *children: Element | str, **attributes: str) -> Element:
    return Element(name, attributes, children)


def written(*children: Element | str) -> tuple[str, dict[str, str]]:
    components = VueComponents()
    page = components.write_page(*find_repeats(tag("body", *children)))
    return page, components.files


def card(title: str, *more: Element) -> Element:
    return tag("div", tag("h3", title), tag("p", f"About {title}", **{"class": f"text-{title[0].lower()}"}), *more)


def test_cards_are_a_component_with_data() -> None:
    page, files = written("\n", card("Fern"), "\n", card("Moss"), "\n", tag("p", "Else"), "\n")
    assert files == {
        "Part": "<script setup>\ndefineProps(['title', 'textClass', 'text'])\n</script>\n\n"
        '<template><div><h3>{{ title }}</h3><p :class="textClass">{{ text }}</p></div></template>\n'
    }
    assert page == (
        "<script setup>\nimport Part from '../components/Part.vue'\n\nconst parts = [\n"
        '  { title: "Fern", textClass: "text-f", text: "About Fern" },\n'
        '  { title: "Moss", textClass: "text-m", text: "About Moss" },\n]\n</script>\n\n'
        '<template>\n  <template v-for="(part, at) in parts" :key="at">\n    <Part v-bind="part" />\n  </template>\n'
        "  <p>Else</p>\n</template>\n"
    )


def test_rows_of_different_length_are_one_template() -> None:
    rows = [tag("tr", *(tag("td", f"{row}{cell}") for cell in range(3 + row))) for row in range(2)]
    page, _ = written(tag("table", tag("tbody", *rows)))
    assert 'const rows = [\n  ["00", "01", "02"],\n  ["10", "11", "12", "13"],\n]\n' in page
    cells = '<td v-for="(cell, at) in row" :key="at">{{ cell }}</td>'
    assert f'<tbody><tr v-for="(row, at) in rows" :key="at">{cells}</tr></tbody>' in page


def test_without_space_between_them_none_is_added() -> None:
    page, _ = written(*(tag("a", word, href=f"{word}.html") for word in ("one", "two", "three")))
    assert '<template><a v-for="(link, at) in links" :key="at" :href="link.href">{{ link.text }}</a></template>' in page


def test_what_is_all_the_same_is_counted() -> None:
    page, files = written(*[tag("div", tag("i"), tag("b"))] * 4)
    assert "const parts = 4\n" in page
    assert '<Part v-for="(part, at) in parts" :key="at" />' in page
    assert (
        files["Part"]
        == "<script setup>\ndefineProps([])\n</script>\n\n<template><div><i></i><b></b></div></template>\n"
    )


def test_prose_and_lines_stay_as_they_are() -> None:
    template, data = find_repeats(tag("body", *[tag("p", "Same")] * 5, *[tag("hr")] * 4))
    assert data == {}
    assert not any(isinstance(child, Loop) for child in template.children)


def test_one_template_is_one_component_on_all_pages() -> None:
    components = VueComponents()
    for words in (("Fern", "Moss"), ("Reed", "Sedge", "Rush")):
        components.write_page(*find_repeats(tag("body", *map(card, words))))
    assert list(components.files) == ["Part"]


def test_texts_and_attributes_are_no_code() -> None:
    evil = Element(
        "p",
        {
            "v-html": "x",
            ":title": "alert(1)",
            "@click": "alert(1)",
            "#default": "y",
            "ref": "z",
            "key": "1",
            "id": '"<',
        },
        ("{{ constructor }} <script>&amp;",),
    )
    page, _ = written(evil)
    shown = "&#123;&#123; constructor }} &lt;script&gt;&amp;amp;"
    assert page == f'<template><p id="&quot;&lt;">{shown}</p></template>\n'


def test_data_cannot_end_the_script_that_it_stands_in() -> None:
    page, _ = written(*(tag("a", text) for text in ("</script><b>", "<!--", "`${1}`")))
    assert page.count("</script>") == 1
    assert '"<\\/script><b>"' in page and '"<\\!--"' in page


def test_names_that_vue_or_javascript_have_taken() -> None:
    assert [prop_name(each) for each in ("for", "data-x", "2nd", "ref", "at", "---")] == [
        "forValue", "dataX", "x2nd", "refValue", "atValue", "part",
    ]  # fmt: skip
    page, _ = written(tag("slot", tag("transition", "a")), tag("my-part", "b"), tag("a<b", "c"))
    assert "<component :is=\"'slot'\"><component :is=\"'transition'\">a</component></component>" in page
    assert "<my-part>b</my-part><component :is=\"'ab'\">c</component>" in page


def test_a_shadow_root_is_kept_apart() -> None:
    shadow = tag("template", tag("b", "inside"), shadowrootmode="open")
    page, _ = written(tag("div", shadow, "beside", id="state-1"))
    assert (
        '<ShadowHost as="div" mode="open" id="state-1"><template #light>beside</template><b>inside</b></ShadowHost>'
        in page
    )


def test_preformatted_text_keeps_its_white_space() -> None:
    page, _ = written(tag("pre", "a\n", tag("b", "c"), "\n  ", tag("i", "d")))
    assert "<pre>a\n<b>c</b>\n  <i>d</i></pre>" in page
