import threading

from model_runtime.tokenizer.cache import TextCache, _size


def test_the_least_used_text_goes_first():
    cache = TextCache(max_bytes=1500)
    for text in "abcd":
        cache.put(text, list(range(50)))
    assert cache.get("a") == list(range(50))
    cache.put("e", list(range(50)))
    assert [cache.get(text) is not None for text in "abcde"] == [True, False, True, True, True]


def test_a_huge_text_pushes_nothing_out():
    cache = TextCache(max_bytes=1200)
    cache.put("a", [1])
    cache.put("b", list(range(5000)))
    assert (cache.get("a"), cache.get("b")) == ([1], None)


def test_what_is_handed_out_is_a_copy():
    cache = TextCache()
    ids = [1, 2]
    cache.put("a", ids)
    ids.append(3)
    found = cache.get("a")
    assert found == [1, 2]
    found.append(4)
    assert cache.get("a") == [1, 2]


def test_many_threads_at_once():
    cache = TextCache(max_bytes=4000)
    wrong = []

    def work(seed):
        for n in range(2000):
            number = (n * seed) % 97
            found = cache.get(str(number))
            if found is None:
                cache.put(str(number), [number] * 20)
            elif found != [number] * 20:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache._num_bytes == sum(_size(text, ids) for text, ids in cache._ids.items()) <= 4000
