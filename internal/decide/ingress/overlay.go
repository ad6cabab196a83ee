package ingress

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Overlay returns what an object has to become: what is there, with everything
// on top that is wanted. Fields that nobody asks for stay as they are, whoever
// set them: a person, another controller, or an API server newer than this
// program that fills in a default. So an object that says what is wanted is
// never written again.
//
// In lists, entries that are wanted are found by their name, or by their place
// where they have none; entries that are not wanted go. Gone are the dotted
// paths: what stands there is exactly what is wanted, or nothing.
func Overlay[T any](live, wanted *T, gone ...string) (*T, bool, error) {
	have, err := tree(live)
	if err != nil {
		return nil, false, err
	}
	want, err := tree(wanted)
	if err != nil {
		return nil, false, err
	}
	for _, key := range []string{"apiVersion", "kind", "status"} {
		delete(want, key) // what an object is does not change, and nobody wants a status
	}
	merged := overlayMap(have, want, "", gone)
	if reflect.DeepEqual(have, merged) {
		return live, false, nil
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return nil, false, err
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, false, fmt.Errorf("merge an object with what is wanted: %w", err)
	}
	return out, true, nil
}

func tree(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	return out, nil
}

func overlayMap(have, want map[string]any, path string, gone []string) map[string]any {
	out := map[string]any{}
	for key, value := range have {
		at := join(path, key)
		nested, isMap := value.(map[string]any)
		switch _, asked := want[key]; {
		case asked:
			out[key] = value
		case slices.Contains(gone, at):
		case isMap:
			out[key] = overlayMap(nested, nil, at, gone)
		default:
			out[key] = value
		}
	}
	for key, value := range want {
		if value == nil {
			continue // the encoding of something unset
		}
		at := join(path, key)
		if slices.Contains(gone, at) {
			out[key] = value
			continue
		}
		out[key] = overlayValue(out[key], value, at, gone)
	}
	return out
}

func overlayValue(have, want any, path string, gone []string) any {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		return overlayMap(h, w, path, gone)
	case []any:
		h, _ := have.([]any)
		return overlayList(h, w, path, gone)
	}
	return want
}

// overlayList keeps the wanted order.
func overlayList(have, want []any, path string, gone []string) []any {
	out := make([]any, 0, len(want))
	for i, w := range want {
		entry, ok := w.(map[string]any)
		if !ok {
			out = append(out, w)
			continue
		}
		out = append(out, overlayMap(counterpart(have, entry, i, len(want)), entry, path, gone))
	}
	return out
}

// counterpart is the entry of a list that a wanted one is laid upon.
func counterpart(have []any, want map[string]any, i, total int) map[string]any {
	name, named := want["name"]
	for _, h := range have {
		if entry, ok := h.(map[string]any); ok && named && entry["name"] == name {
			return entry
		}
	}
	if !named && len(have) == total {
		entry, _ := have[i].(map[string]any)
		return entry
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return strings.Join([]string{path, key}, ".")
}
