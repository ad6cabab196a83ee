package host

import (
	"fmt"
	"os"
	"strings"
)

// Name returns the name of this host as its node has it: in lower case.
func Name() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this host: %w", err)
	}
	return strings.ToLower(name), nil
}
