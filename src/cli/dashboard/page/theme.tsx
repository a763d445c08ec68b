import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];
const key = "dashboard-theme";

/** By default as the system is. */
export function ThemeSwitch(): JSX.Element {
  const [theme, setTheme] = useState<Theme>(storedTheme);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem(key, theme);
    } catch {
      // The browser keeps nothing: then the choice is for this page.
    }
  }, [theme]);
  return (
    <label class="theme">
      <span class="hidden">Colours</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        {themes.map((name) => <option key={name} value={name}>{name === "system" ? "System colours" : name === "light" ? "Light" : "Dark"}</option>)}
      </select>
    </label>
  );
}

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(key);
    return themes.find((name) => name === stored) ?? "system";
  } catch {
    return "system";
  }
}
