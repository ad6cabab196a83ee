package ingress

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Overlay returns what an object must become: the live object with everything
// that is wanted laid over it. Fields that nobody asks for stay as they are,
// whoever set them: an administrator, another controller, or an API server
// newer than this program that fills in a default. So an object that already
// has everything that is wanted is never written again.
//
// In lists, a wanted entry is matched with a live one by its name, or by its
// position if it has none; entries that are not wanted are removed. gone lists
// dotted paths that become exactly what is wanted, or are removed.
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
		delete(want, key) // the kind never changes, and a status is never wanted
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
		return nil, false, fmt.Errorf("merge an object with its wanted state: %w", err)
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
			continue // an unset field is encoded as null
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

// counterpart returns the live list entry that a wanted one is laid over, nil
// if there is none.
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
