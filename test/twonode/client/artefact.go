package client

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/anishathalye/porcupine"
)

// Save writes a history into a directory, as data and as a picture for a
// browser.
func Save(dir string, h History) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	data, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations(h), patience)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "history.json"), data, 0o600),
		porcupine.VisualizePath(model, info, filepath.Join(dir, "history.html")),
	)
}

// ReadHistory reads a history that Save wrote.
func ReadHistory(dir string) (History, error) {
	var h History
	data, err := os.ReadFile(filepath.Join(dir, "history.json"))
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(data, &h)
}
