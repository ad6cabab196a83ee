package netwatch

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
)

// Path is where a host keeps which of its addresses are its own.
const Path = "/var/lib/holdfast/node-address.json"

// Chosen returns what was chosen before, nothing where nothing was. A
// file that cannot be understood counts as none: it is chosen anew.
func Chosen(path string) (nodeaddress.Choice, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nodeaddress.Choice{}, nil
	}
	if err != nil {
		return nodeaddress.Choice{}, fmt.Errorf("read which addresses this host chose: %w", err)
	}
	var choice nodeaddress.Choice
	if damaged := json.Unmarshal(data, &choice) != nil; damaged {
		choice = nodeaddress.Choice{}
	}
	return choice, nil
}

// Keep writes down what was chosen.
func Keep(path string, choice nodeaddress.Choice) error {
	data, err := json.MarshalIndent(choice, "", "  ")
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep which addresses this host chose: %w", err)
	}
	return nil
}
