package config

import (
	"bytes"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DecodeStrict reads a document of another kind as strictly as an install configuration: each
// unknown field, each wrong type and each field that is given twice is a mistake with its field
// path, and no mistake quotes a value. out is a pointer to a struct whose fields are structs,
// pointers, lists, strings, numbers and booleans with JSON names; what is the name of the kind
// for mistakes. broken lists the paths whose values could not be read.
func DecodeStrict(what string, data []byte, out any) (mistakes field.ErrorList, broken []string) {
	d := decodeAs(what, data, out)
	return d.errs, d.broken
}

// Reveal encodes such a value as YAML with its secrets: keep the bytes in files of mode
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
