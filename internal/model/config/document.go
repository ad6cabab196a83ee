package config

import (
	"bytes"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DecodeStrict reads another document than an install configuration as strictly as one:
// each unknown field, each wrong type and each field that is given twice is a mistake
// with its field path, and no mistake quotes a value. out is a pointer to a struct whose
// fields are structs, pointers, lists, texts, numbers and truths with JSON names; what
// names the document. broken lists the paths from whose values nothing may be concluded.
func DecodeStrict(what string, data []byte, out any) (mistakes field.ErrorList, broken []string) {
	d := decodeAs(what, data, out)
	return d.errs, d.broken
}

// Reveal writes such a value as YAML with its secrets: keep the bytes in files of mode
// 0600.
func Reveal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(toNode(reflect.ValueOf(v))); err != nil {
		return nil, fmt.Errorf("encode a %T: %w", v, err)
	}
	return b.Bytes(), enc.Close()
}
