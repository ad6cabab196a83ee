package bundle

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/redact"
)

// shownKeys are the fields of a configuration whose text says what it is about, and
// holds no contents.
var shownKeys = map[string]bool{"name": true, "path": true, "version": true}

// hideContents removes what a MachineConfig or a KubeletConfig writes on hosts:
// contents of files and units, keys, hashes of passwords, headers. What remains says which
// files, units, accounts and settings it is about. A text that no known field holds
// is removed too.
func hideContents(o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	if config, ok := spec["config"]; ok {
		spec["config"] = hidden("", config)
	}
	if settings, ok := spec["kubeletConfig"].(map[string]any); ok {
		if headers, ok := settings["staticPodURLHeader"]; ok {
			settings["staticPodURLHeader"] = hidden("", headers)
		}
	}
}

// hidden returns a value of JSON with the length of each text in its place.
func hidden(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = hidden(name, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = hidden("", inner)
		}
	case string:
		if !shownKeys[key] {
			return fmt.Sprintf("%s (%d bytes)", redact.Mark, len(v))
		}
	}
	return v
}
