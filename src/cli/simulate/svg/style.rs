//! Colours, for light and for dark backgrounds.

/// The rules. States in flight are saturated, the ones before and after are pale, so that
/// what happens stands out; neighbours differ in lightness, for readers who see no hues.
pub(super) const STYLE: &str = r##"<style>
.wg{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px}
.wg text{fill:#1f2328}
.wg .h1{font-size:18px;font-weight:600}
.wg .h2{font-size:14px;font-weight:600}
.wg .h3{font-size:13px;font-weight:600}
.wg .dim{fill:#636c76}
.wg .small,.wg .tick,.wg .note,.wg .took{font-size:11px;fill:#636c76}
.wg .good{fill:#1a7f37;font-weight:600}
.wg .bad{fill:#cf222e;font-weight:600}
.wg .mark{fill:#8250df;font-size:11px}
@supports (paint-order:stroke){.wg .mark,.wg .note,.wg .tick{stroke:#fff;stroke-width:3px;paint-order:stroke;stroke-linejoin:round}}
.wg .bg{fill:#fff}
.wg .grid{stroke:#d8dee4;stroke-width:1}
.wg .over .grid{stroke:#000;stroke-opacity:.13;pointer-events:none}
.wg .axis{stroke:#8c959f;stroke-width:1}
.wg .rule{stroke:#d0d7de;stroke-width:1}
.wg .open{fill:#57606a}
.wg .band{fill:#818b98;fill-opacity:.1}
.wg .markline{stroke:#8250df;stroke-width:1.2;stroke-dasharray:4 3}
.wg .markrange{fill:#8250df;fill-opacity:.13}
.wg .opens{fill:#9a6700;stroke:#fff;stroke-width:1}
.wg .gate{fill:url(#wg-gate)}
.wg .gate0{fill:#fff3d1}
.wg .gate1{stroke:#bf8700}
.wg .waiting{fill:#d8dee4}
.wg .held{fill:url(#wg-held)}
.wg .held0{fill:#efe3c2}
.wg .held1{stroke:#b3924a}
.wg .pending{fill:#a5cdff}
.wg .syncing{fill:#1f6feb}
.wg .becoming{fill:#f5b62e}
.wg .healthy{fill:#8fd3a4}
.wg .failed{fill:#d1242f}
.wg .going-back{fill:#a04ac7}
.wg .back{fill:#dcbfec}
.wg .skipped{fill:url(#wg-skipped)}
.wg .skipped0{fill:#fff}
.wg .skipped1{stroke:#afb8c1}
.wg .thin{shape-rendering:crispEdges}
@media (prefers-color-scheme:dark){
.wg text{fill:#e6edf3}
.wg .dim,.wg .small,.wg .tick,.wg .note,.wg .took{fill:#9198a1}
.wg .good{fill:#3fb950}
.wg .bad{fill:#ff7b72}
.wg .mark{fill:#c297ff}
@supports (paint-order:stroke){.wg .mark,.wg .note,.wg .tick{stroke:#0d1117}}
.wg .bg{fill:#0d1117}
.wg .grid{stroke:#262c36}
.wg .over .grid{stroke:#fff;stroke-opacity:.13}
.wg .axis{stroke:#656c76}
.wg .rule{stroke:#2f3742}
.wg .open{fill:#b1bac4}
.wg .band{fill:#9198a1;fill-opacity:.13}
.wg .markline{stroke:#c297ff}
.wg .markrange{fill:#c297ff;fill-opacity:.17}
.wg .opens{fill:#f2cc60;stroke:#0d1117}
.wg .gate0{fill:#3a2d0c}
.wg .gate1{stroke:#d29922}
.wg .waiting{fill:#343b45}
.wg .held0{fill:#3a3320}
.wg .held1{stroke:#9c8445}
.wg .pending{fill:#2c4f80}
.wg .syncing{fill:#4a94ff}
.wg .becoming{fill:#f2c14e}
.wg .healthy{fill:#2a7a45}
.wg .failed{fill:#ff5a52}
.wg .going-back{fill:#c07be0}
.wg .back{fill:#5d3f70}
.wg .skipped0{fill:#0d1117}
.wg .skipped1{stroke:#57606a}
}
</style>
"##;

/// Hatches, for what is held from outside.
pub(super) const PATTERNS: &str = r#"<defs>
<pattern id="wg-gate" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="gate0" width="7" height="7"/><line class="gate1" x1="0" y1="0" x2="0" y2="7" stroke-width="5"/></pattern>
<pattern id="wg-held" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="held0" width="6" height="6"/><line class="held1" x1="0" y1="0" x2="0" y2="6" stroke-width="2.5"/></pattern>
<pattern id="wg-skipped" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="skipped0" width="6" height="6"/><line class="skipped1" x1="0" y1="0" x2="0" y2="6" stroke-width="2"/></pattern>
</defs>
"#;
