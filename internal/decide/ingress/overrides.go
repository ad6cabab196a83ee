package ingress

import (
	"encoding/json"
	"fmt"
	"strconv"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// localFallback returns true unless an override says otherwise.
func localFallback(ic *operatorv1.IngressController) bool {
	on, err := overriddenFallback(ic)
	return err == nil && on
}

// overriddenFallback reads unsupportedConfigOverrides.localWithFallback, which
// is a bool or the text of one.
func overriddenFallback(ic *operatorv1.IngressController) (bool, error) {
	if len(ic.Spec.UnsupportedConfigOverrides.Raw) == 0 {
		return true, nil
	}
	var overrides struct {
		LocalWithFallback json.RawMessage `json:"localWithFallback"`
	}
	if err := json.Unmarshal(ic.Spec.UnsupportedConfigOverrides.Raw, &overrides); err != nil {
		return true, fmt.Errorf("spec.unsupportedConfigOverrides: %w", err)
	}
	if overrides.LocalWithFallback == nil {
		return true, nil
	}
	text := string(overrides.LocalWithFallback)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return true, fmt.Errorf("spec.unsupportedConfigOverrides.localWithFallback: %s is neither true nor false", overrides.LocalWithFallback)
	}
	return on, nil
}
