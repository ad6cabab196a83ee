package encryption

import "testing"

func TestKeysAreToldByWhatTheyDo(t *testing.T) {
	for want, k := range map[string]Keys{
		"nothing": nil, "clear text": {0}, "key 3": {3}, "key 3 to write, key 2 to read": {3, 2}, "key 1 to write, clear text to read": {1, 0},
		"clear text to write, key 1 to read": {0, 1},
	} {
		if got := words(k); got != want {
			t.Errorf("%v: %q, want %q", k, got, want)
		}
	}
}
