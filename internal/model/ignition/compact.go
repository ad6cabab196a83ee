package ignition

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// compact returns the JSON of a configuration without the empty objects that
// encoding its types would leave: they mean nothing, and they would look like
// fields that an older version lacks. Keys are sorted.
func compact(cfg types.Config) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree(reflect.ValueOf(cfg))); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// tree returns the value that encoding/json makes of v, without its empty parts,
// or nil if nothing is left. A pointer to a zero value is not empty: `enabled:
// false` has a meaning.
func tree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return v.Elem().Interface()
	case reflect.Struct:
		fields := map[string]any{}
		addFields(fields, v)
		if len(fields) == 0 {
			return nil
		}
		return fields
	case reflect.Slice:
		return list(v)
	default:
		if v.IsZero() {
			return nil
		}
		return v.Interface()
	}
}

func list(v reflect.Value) any {
	if v.Len() == 0 {
		return nil
	}
	items := make([]any, v.Len())
	for i := range items {
		items[i] = tree(v.Index(i))
	}
	return items
}

func addFields(fields map[string]any, v reflect.Value) {
	for field, value := range v.Fields() {
		if field.Anonymous {
			addFields(fields, value)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if item := tree(value); item != nil {
			fields[name] = item
		}
	}
}
