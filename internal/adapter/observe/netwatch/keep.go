package netwatch

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
)

// Path is the file in which a host keeps its choice of its own addresses.
const Path = "/var/lib/holdfast/node-address.json"

// LoadChoice returns the choice that was stored before, or none. A file that cannot
// be decoded counts as none: the host chooses anew.
func LoadChoice(path string) (nodeaddress.Choice, error) {
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

// StoreChoice stores a choice.
func StoreChoice(path string, choice nodeaddress.Choice) error {
	data, err := json.MarshalIndent(choice, "", "  ")
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep which addresses this host chose: %w", err)
	}
	return nil
}
